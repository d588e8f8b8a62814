package actors

import (
	"fmt"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wantMessages is all that can reach the registry's loop. A new message, or a
// new field of one, is reviewed here: it brings a fact or a question, never a
// number of leases, and nothing that could write the state by itself.
var wantMessages = map[string]string{
	"message": "kind kind; cause Cause; now int64; ticket ticket; pin uint64; request *Request; reply chan<- struct{}; control control",

	"addWorkers":      "specs []Spec; reply chan<- addReply",
	"setRoles":        "url string; roles Roles; reply chan<- error",
	"amendWorkers":    "specs []Spec; reply chan<- error",
	"removeWorkers":   "url string; reply chan<- removeReply",
	"healthReport":    "base string; reason string; reply chan<- bool",
	"snapshotRequest": "into []WorkerView; now int64; reply chan<- Snapshot",
	"healthRequest":   "now int64; reply chan<- FleetHealth",
	"atRequest":       "base string; reply chan<- []WorkerAt",
	"leasesRequest":   "now int64; reply chan<- []LeaseView",
	"finishSession":   "session []byte; reply chan<- bool",
	"drain":           "idle chan<- struct{}",
	"drainWorkers":    "url string; reply chan<- drainReply",
	"undrainWorkers":  "url string; reply chan<- error",
	"endDrain":        "id WorkerID; nth uint32; reply chan<- bool",
	"setModels":       "base string; models []string; reply chan<- setModelsReply",
	"modelsRequest":   "now int64; reply chan<- []ModelView",
	"setForeign":      "origin string; all []Elsewhere; reply chan<- error",
	"workerSays":      "worker WorkerID; requests int; now int64",
	"running":         "into []Elsewhere; reply chan<- []Elsewhere",
	"nameWorkers":     "ids []WorkerID; reply chan<- []string",
	"findWorkers":     "urls []string; reply chan<- []WorkerID",
	"halt":            "left chan<- int",
}

// wantKinds are the messages that are not controls, and the control.
var wantKinds = []string{"kindAcquire", "kindPair", "kindBegin", "kindReturn", "kindReturnUnjudged", "kindJudge", "kindFirstByte", "kindProgress", "kindPin", "kindLeave", "kindDismiss", "kindTick", "kindControl"}

// No message can set a load: there is none with a field to do it through.
func TestNoMessageSetsLoad(t *testing.T) {
	src := readSource(t)
	got := map[string]string{"message": fieldsOf(src, src.structOf(t, "message"))}
	faults := shapeFaults(src, "message", src.structOf(t, "message"))
	scope := src.pkg.Scope()
	for _, name := range scope.Names() {
		o, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || types.IsInterface(o.Type()) || !applies(src, o.Type()) {
			continue
		}
		x, ok := o.Type().Underlying().(*types.Struct)
		if !ok {
			t.Errorf("message %s is %v, want a struct whose fields can be read here", name, o.Type().Underlying())
			continue
		}
		got[name] = fieldsOf(src, x)
		faults = append(faults, shapeFaults(src, name, x)...)
	}
	for _, f := range faults {
		t.Error(f)
	}
	names := slices.Sorted(maps.Keys(got))
	for name := range wantMessages {
		if got[name] == "" {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if got[name] != wantMessages[name] {
			t.Errorf("message %s has the fields %q, want %q", name, got[name], wantMessages[name])
		}
	}
	var kinds []string
	for _, name := range scope.Names() {
		if c, ok := scope.Lookup(name).(*types.Const); ok && isNamed(c.Type(), "kind") {
			kinds = append(kinds, name)
		}
	}
	slices.Sort(kinds)
	want := slices.Sorted(slices.Values(wantKinds))
	if !slices.Equal(kinds, want) {
		t.Errorf("kinds of messages = %v, want %v", kinds, want)
	}
}

func isNamed(x types.Type, name string) bool {
	n, ok := pointee(x).(*types.Named)
	return ok && n.Obj().Name() == name
}

// applies reports whether a type has the method of a control, on its value or on
// a pointer to it.
func applies(src *source, x types.Type) bool {
	o, _, _ := types.LookupFieldOrMethod(types.NewPointer(x), true, src.pkg, "apply")
	f, ok := o.(*types.Func)
	return ok && f.Signature().Params().Len() == 1 && onState(f.Signature().Params().At(0).Type())
}

func fieldsOf(src *source, x *types.Struct) string {
	var all []string
	for f := range x.Fields() {
		all = append(all, f.Name()+" "+types.TypeString(f.Type(), types.RelativeTo(src.pkg)))
	}
	return strings.Join(all, "; ")
}

// tellsLoad matches names under which a count of leases would come.
var tellsLoad = regexp.MustCompile(`(?i)load|live|lease|count|inflight|in_flight|phase|running|grant|return|reset|delta`)

// shapeFaults says what in a message, and in what it brings by value, could
// carry a load or write one.
func shapeFaults(src *source, name string, x *types.Struct) []string {
	var faults []string
	for f := range x.Fields() {
		what := fmt.Sprintf("%s.%s %s", name, f.Name(), types.TypeString(f.Type(), types.RelativeTo(src.pkg)))
		if tellsLoad.MatchString(f.Name()) {
			faults = append(faults, what+" looks like a count of leases: load is counted, never sent")
		}
		switch u := types.Unalias(f.Type()).Underlying().(type) {
		case *types.Signature:
			faults = append(faults, what+" is a function, which could do anything to the state")
		case *types.Map:
			faults = append(faults, what+" is a map, which its sender can change later")
		case *types.Pointer:
			for _, owned := range []string{"state", "worker", "slot"} {
				if isNamed(f.Type(), owned) {
					faults = append(faults, what+" points into the state, which only the loop may reach")
				}
			}
		case *types.Struct:
			faults = append(faults, shapeFaults(src, what, u)...)
		}
	}
	return faults
}
