package actors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The laws of load, read off the package's own source: who may write what load
// is made of, who may call those who do, and what a message may bring. Behaviour
// is tested elsewhere; these tests make a new way to change load a thing that
// cannot be added without being seen here.

// source is the package's code, tests left out, parsed and type-checked.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	pkg   *types.Package
}

type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not looked at", path)
}

// readSource checks only what the package itself declares: what comes from other
// packages has no known type, and no counter of load either.
func readSource(t *testing.T) *source {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	src := &source{
		fset: token.NewFileSet(),
		info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(src.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		src.files = append(src.files, f)
	}
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	src.pkg, _ = conf.Check("actors", src.fset, src.files, src.info)
	return src
}

// each calls f for every node of the package with the function around it.
func (s *source) each(f func(fn string, n ast.Node)) {
	for _, file := range s.files {
		for _, d := range file.Decls {
			fn := "package"
			if x, ok := d.(*ast.FuncDecl); ok {
				fn = x.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if n != nil {
					f(fn, n)
				}
				return true
			})
		}
	}
}

// structOf is a struct type of the package.
func (s *source) structOf(t *testing.T, name string) *types.Struct {
	t.Helper()
	if o := s.pkg.Scope().Lookup(name); o != nil {
		if x, ok := o.Type().Underlying().(*types.Struct); ok {
			return x
		}
	}
	t.Fatalf("there is no struct %s: this test must learn where load is kept", name)
	return nil
}

// counters are the fields that load is made of: the counters themselves, the
// totals that must agree with them, and what says of which worker and in which
// phase a lease stands.
var counters = map[string][]string{
	"worker": {"inPhase", "pending", "sent", "parked", "held", "granted"},
	"state":  {"live", "granted", "returned", "refused"},
	"slot":   {"gen", "worker", "phase", "live", "pending", "held"},
	"ticket": {"gen", "slot"},
	"room":   {"admitted", "admissions", "dismissed"},
	"pass":   {"gen", "live"},
	"queue":  {"size", "waiting", "readmit", "parked"},
}

// wantWrites is every place that may write one. A ++ in a loop is one place, so
// what is in a list here must also be read there.
var wantWrites = map[string]int{
	"grant: worker.inPhase ++":    1,
	"advance: worker.inPhase --":  1,
	"advance: worker.inPhase ++":  1,
	"giveBack: worker.inPhase --": 1,

	"grant: worker.granted ++":    1,
	"grant: state.live ++":        1,
	"grant: state.granted ++":     1,
	"giveBack: state.live --":     1,
	"giveBack: state.returned ++": 1,
	"refuse: state.refused ++":    1,

	// A share of pending work is given back by whoever is first: the end of the
	// lease, the first byte, or its time.
	"grant: worker.pending +=":     1,
	"grant: worker.parked +=":      1,
	"advance: worker.parked -=":    1,
	"prefilled: worker.parked -=":  1,
	"send: worker.sent +=":         1,
	"heard: worker.sent -=":        1,
	"prefilled: worker.pending -=": 1,
	"prefilled: slot.pending =":    1,
	"grant: worker.held +=":        1,
	"giveBack: worker.held -=":     1,

	// A slot is written whole when its lease begins. Only a slot that names no
	// lease gets another generation.
	"grant: slot{gen worker phase live pending held}": 1,
	"grant: slot{gen}":        1,
	"grant: slot =":           1,
	"grant: []slot =":         1,
	"grant: append([]slot)":   1,
	"advance: slot.phase =":   1,
	"giveBack: slot.gen ++":   1,
	"giveBack: slot.live =":   1,
	"grant: ticket{gen slot}": 1,

	// A worker's entry begins empty and is emptied when it is removed and idle,
	// which TestRetireNeedsAnIdleWorker reads.
	"enlist: worker{}":         1,
	"enlist: []worker =":       1,
	"enlist: append([]worker)": 1,
	"retire: worker =":         1,
	"retire: worker{}":         1,

	"newState: state{}": 1,

	// Admissions and waits are counted likewise, each by two functions.
	"admit: room.admitted ++":    1,
	"admit: room.admissions ++":  1,
	"dismiss: room.admitted --":  1,
	"dismiss: room.dismissed ++": 1,
	"admit: []pass =":            1,
	"admit: append([]pass)":      1,
	"admit: pass{gen}":           1,
	"admit: pass.live =":         1,
	"admit: ticket{gen slot}":    1,
	"dismiss: pass.gen ++":       1,
	"dismiss: pass.live =":       1,

	"stand: queue.size ++":        1,
	"stand: queue.waiting ++":     1,
	"stand: queue.readmit ++":     1,
	"turn: ticket{gen slot}":      1,
	"leaveLane: queue.size --":    1,
	"leaveLane: queue.waiting --": 1,
	"leaveLane: queue.readmit --": 1,
	"setAside: queue.parked ++":   1,
	"setBack: queue.parked --":    1,
	"remove: queue.parked --":     1,

	"newRoom: room{}":  1,
	"newRoom: queue{}": 1,
	"ready: ticket{}":  3,
	"Insert: ticket{}": 1, // of no lease, for the tree
	"hint: ticket{}":   1, // likewise
}

// Load is counted, never set: three functions write its counters.
func TestOnlyLeasesChangeLoad(t *testing.T) {
	src := readSource(t)
	got := writes(t, src)
	for _, place := range slices.Sorted(maps.Keys(got)) {
		if got[place] != wantWrites[place] {
			t.Errorf("%s: %d times, want %d: load is counted by grant, advance and giveBack, and never set", place, got[place], wantWrites[place])
		}
	}
	for _, place := range slices.Sorted(maps.Keys(wantWrites)) {
		if got[place] == 0 {
			t.Errorf("%s: not found, want it %d times", place, wantWrites[place])
		}
	}
}

// writes counts every way in which the code may change a counter, by function.
func writes(t *testing.T, src *source) map[string]int {
	w := &writeFinder{source: src, fields: map[*types.Var]string{}, count: map[string]int{}}
	for name, fields := range counters {
		x := src.structOf(t, name)
		found := 0
		for f := range x.Fields() {
			if slices.Contains(fields, f.Name()) {
				w.fields[f] = name + "." + f.Name()
				found++
			}
		}
		if found != len(fields) {
			t.Fatalf("%s has %d of the fields %v: this test must learn where load is kept", name, found, fields)
		}
	}
	src.each(w.visit)
	return w.count
}

type writeFinder struct {
	*source
	fields map[*types.Var]string
	count  map[string]int
}

func (w *writeFinder) add(fn, what string) { w.count[fn+": "+what]++ }

func (w *writeFinder) visit(fn string, n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return // new variables; whatever they point to is looked at when it is written
		}
		for _, x := range n.Lhs {
			w.written(fn, x, n.Tok.String())
		}
	case *ast.IncDecStmt:
		w.written(fn, n.X, n.Tok.String())
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			w.written(fn, n.Key, "range")
			w.written(fn, n.Value, "range")
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			if f := w.field(n.X); f != "" {
				w.add(fn, "&"+f)
			}
		}
	case *ast.SliceExpr:
		if f := w.field(n.X); f != "" {
			w.add(fn, f+"[:]")
		}
	case *ast.SelectorExpr:
		w.methodOf(fn, n)
	case *ast.CompositeLit:
		w.literal(fn, n)
	case *ast.CallExpr:
		w.call(fn, n)
	}
}

// written notes a write to x: to a counter, to a part of one, or to a whole that
// holds counters.
func (w *writeFinder) written(fn string, x ast.Expr, how string) {
	if x == nil {
		return
	}
	if f := w.field(x); f != "" {
		w.add(fn, f+" "+how)
		return
	}
	if name := w.holder(w.info.TypeOf(x), false); name != "" {
		w.add(fn, name+" "+how)
	}
}

// field names the counter that x is, or is a part of.
func (w *writeFinder) field(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return w.field(x.X)
	case *ast.IndexExpr:
		return w.field(x.X)
	case *ast.SelectorExpr:
		if s := w.info.Selections[x]; s != nil {
			if v, ok := s.Obj().(*types.Var); ok && w.fields[v] != "" {
				return w.fields[v]
			}
		}
		return w.field(x.X)
	}
	return ""
}

// holder names a type by whose value counters are held: one of their structs,
// or an array, slice or map of such; with pointers, also what points to one.
func (w *writeFinder) holder(x types.Type, pointers bool) string {
	if x == nil {
		return ""
	}
	switch x := types.Unalias(x).(type) {
	case *types.Named:
		if x.Obj().Pkg() == w.pkg && counters[x.Obj().Name()] != nil && x.Obj().Name() != "ticket" {
			return x.Obj().Name()
		}
		switch u := x.Underlying().(type) {
		case *types.Struct:
			for f := range u.Fields() {
				if w.holder(f.Type(), false) != "" {
					return x.Obj().Name()
				}
			}
		case *types.Interface, *types.Basic, *types.Signature, *types.Pointer:
		default:
			return w.holder(u, pointers)
		}
	case *types.Pointer:
		if !pointers {
			return "" // what it points to is not in it
		}
		if name := w.holder(x.Elem(), false); name != "" {
			return "*" + name
		}
	case *types.Slice:
		if name := w.holder(x.Elem(), pointers); name != "" {
			return "[]" + name
		}
	case *types.Array:
		if name := w.holder(x.Elem(), pointers); name != "" {
			return "[]" + name
		}
	case *types.Map:
		if name := w.holder(x.Elem(), pointers); name != "" {
			return "map of " + name
		}
	}
	return ""
}

// literal notes the making of a whole that holds counters, with those it sets.
func (w *writeFinder) literal(fn string, n *ast.CompositeLit) {
	named, ok := pointee(w.info.TypeOf(n)).(*types.Named)
	if !ok || counters[named.Obj().Name()] == nil || named.Obj().Pkg() != w.pkg {
		return
	}
	var set []string
	for _, e := range n.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			set = append(set, "without names")
			continue
		}
		key, _ := kv.Key.(*ast.Ident)
		if key == nil || slices.Contains(counters[named.Obj().Name()], key.Name) {
			set = append(set, types.ExprString(kv.Key))
		}
	}
	order := counters[named.Obj().Name()]
	slices.SortStableFunc(set, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	w.add(fn, named.Obj().Name()+"{"+strings.Join(set, " ")+"}")
}

// methodOf notes a method with a pointer receiver that is called on a counter.
func (w *writeFinder) methodOf(fn string, n *ast.SelectorExpr) {
	s := w.info.Selections[n]
	if s == nil || s.Kind() != types.MethodVal {
		return
	}
	recv := s.Obj().(*types.Func).Signature().Recv()
	if _, ok := recv.Type().(*types.Pointer); !ok {
		return
	}
	if f := w.field(n.X); f != "" {
		w.add(fn, f+"."+n.Sel.Name)
	}
}

// call notes what may write through its arguments: the built-in functions that
// do, and any function of another package that gets hold of a whole.
func (w *writeFinder) call(fn string, n *ast.CallExpr) {
	name := types.ExprString(n.Fun)
	switch name {
	case "len", "cap", "make", "new", "max", "min":
		return
	case "append", "clear", "copy", "delete":
		if len(n.Args) > 0 {
			if f := w.field(n.Args[0]); f != "" {
				w.add(fn, name+"("+f+")")
			} else if h := w.holder(w.info.TypeOf(n.Args[0]), false); h != "" {
				w.add(fn, name+"("+h+")")
			}
		}
		return
	}
	if w.own(n.Fun) {
		return
	}
	for _, a := range n.Args {
		if h := w.holder(w.info.TypeOf(a), true); h != "" {
			w.add(fn, h+" given to "+name)
		}
	}
}

// own reports whether a called expression is a function or method declared in
// this package with types of its own. What such a one writes is found in it; a
// generic one writes what it cannot name.
func (w *writeFinder) own(fun ast.Expr) bool {
	var called types.Object
	switch x := fun.(type) {
	case *ast.Ident:
		called = w.info.Uses[x]
	case *ast.SelectorExpr:
		called = w.info.Uses[x.Sel]
	}
	f, ok := called.(*types.Func)
	return ok && f.Pkg() == w.pkg && f.Signature().TypeParams() == nil
}

// No message returns leases on the quiet: a lease begins where a worker was
// chosen for it and ends when its holder's return arrives, or when its holder
// begins to decode and is moved; nothing else calls for either. That a
// worker is sick, gone or silent is no reason. A parked lease has no holder yet:
// the loop begins and ends it, and hands it over when it starts.
func TestWhoGrantsAndReturns(t *testing.T) {
	want := map[string]int{
		"lend: grant":          1,
		"begin: advance":       2,
		"begin: giveBack":      1,
		"yield: giveBack":      2,
		"start: advance":       1,
		"moveOn: serve":        1,
		"loop: giveBack":       2, // judged at once, or later
		"serveAs: acquire":     1,
		"serveAs: acquirePair": 1,
		"arrive: serve":        1,
		"attempt: serve":       1,
		"attempt: admit":       1,
		"loop: dismiss":        1,
		"loop: firstByte":      1,
		"firstByte: prefilled": 1,
		"giveBack: prefilled":  1,
		"payOff: prefilled":    1,
		"giveBack: retire":     1,
		"discharge: retire":    1,
	}
	methods := []string{"serve", "acquire", "acquirePair", "admit", "dismiss", "grant", "advance", "giveBack", "firstByte", "prefilled", "retire"}
	src := readSource(t)
	got := map[string]int{}
	src.each(func(fn string, n ast.Node) {
		x, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(methods, x.Sel.Name) {
			return
		}
		if s := src.info.Selections[x]; s != nil && s.Kind() != types.FieldVal && onState(s.Recv()) {
			got[fn+": "+x.Sel.Name]++
		}
	})
	if !maps.Equal(got, want) {
		t.Errorf("mentions = %v, want %v", got, want)
	}
}

func onState(x types.Type) bool {
	n, ok := pointee(x).(*types.Named)
	return ok && n.Obj().Name() == "state"
}

// pointee is x without aliases, or what x points to.
func pointee(x types.Type) types.Type {
	if x == nil {
		return nil
	}
	x = types.Unalias(x)
	if p, ok := x.(*types.Pointer); ok {
		return types.Unalias(p.Elem())
	}
	return x
}

// A worker's entry is emptied only where its code has just seen that no lease
// is live there.
func TestRetireNeedsAnIdleWorker(t *testing.T) {
	src := readSource(t)
	guarded := 0
	src.each(func(_ string, n ast.Node) {
		x, ok := n.(*ast.IfStmt)
		if !ok || x.Else != nil || len(x.Body.List) != 1 {
			return
		}
		e, ok := x.Body.List[0].(*ast.ExprStmt)
		if !ok || types.ExprString(e.X) != "s.retire(id)" {
			return
		}
		idle := false
		for _, c := range conjuncts(x.Cond) {
			idle = idle || types.ExprString(c) == "w.leases() == 0"
		}
		if idle {
			guarded++
		}
	})
	if guarded != 2 {
		t.Errorf("%d calls of retire stand behind w.leases() == 0, want both", guarded)
	}
}

// conjuncts are the conditions that all hold where x does.
func conjuncts(x ast.Expr) []ast.Expr {
	if b, ok := x.(*ast.BinaryExpr); ok && b.Op == token.LAND {
		return append(conjuncts(b.X), conjuncts(b.Y)...)
	}
	return []ast.Expr{x}
}

// Nothing in the package goes behind the compiler's back, where the tests here
// could not follow.
func TestNoBackDoor(t *testing.T) {
	for _, f := range readSource(t).files {
		for _, i := range f.Imports {
			if slices.Contains([]string{`"unsafe"`, `"reflect"`, `"C"`}, i.Path.Value) {
				t.Errorf("%s imports %s, want neither unsafe nor reflect nor C", f.Name.Name, i.Path.Value)
			}
		}
		for _, g := range f.Comments {
			for _, c := range g.List {
				if strings.HasPrefix(c.Text, "//go:linkname") {
					t.Errorf("%s, want no linkname", c.Text)
				}
			}
		}
	}
}
