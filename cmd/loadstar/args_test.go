package main

import (
	"slices"
	"strings"
	"testing"
)

// normaliseRouter is normalise for the flags of the router and the demo.
func normaliseRouter(args ...string) commandLine {
	return normalise(args, func(command string) []*option { return commandOptions(new(config), command) })
}

func TestNormalise(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    string
		command string
		want    string
	}{
		{"nothing", "", "", ""},
		{"list with spaces", "--worker-urls a b c --port 1", "", "--worker-urls=a --worker-urls=b --worker-urls=c --port=1"},
		{"list repeated", "--worker-urls a --worker-urls b", "", "--worker-urls=a --worker-urls=b"},
		{"list with equals", "--worker-urls=a --port=1", "", "--worker-urls=a --port=1"},
		{"list that is empty", "--request-id-headers --port 1", "", "--request-id-headers= --port=1"},
		{"list at the end", "--cors-allowed-origins", "", "--cors-allowed-origins="},
		{"value with equals inside", "--api-key a=b", "", "--api-key=a=b"},
		{"inline value with equals inside", "--api-key=a=b", "", "--api-key=a=b"},
		{"inline value with a dash", "--api-key=-x", "", "--api-key=-x"},
		{"negative number is a value", "--retry-jitter-factor -0.5", "", "--retry-jitter-factor=-0.5"},
		{"lone dash is a value", "--log-dir -", "", "--log-dir=-"},
		{"switch", "--disable-retries --port 1", "", "--disable-retries=true --port=1"},
		{"switch with equals", "--disable-retries=false", "", "--disable-retries=false"},
		{"switch with a bare true", "--disable-retries true --port 1", "", "--disable-retries=true --port=1"},
		{"switch with a bare False", "--disable-retries False", "", "--disable-retries=False"},
		{
			"prefill workers with and without ports", "--prefill http://a:1 8998 --prefill http://b:1 none --prefill http://c:1 --decode http://d:1",
			"", "--prefill=http://a:1 8998 --prefill=http://b:1 none --prefill=http://c:1 --decode=http://d:1",
		},
		{"prefill workers behind one flag", "--prefill http://a:1 8998 http://b:1 http://c:1 none", "", "--prefill=http://a:1 8998 --prefill=http://b:1 --prefill=http://c:1 none"},
		{"prefill worker with equals", "--prefill=http://a:1 --decode=http://d:1", "", "--prefill=http://a:1 --decode=http://d:1"},
		{"port that no URL precedes", "--prefill http://a:1 --prefill 8998", "", "--prefill=http://a:1 --prefill=8998"},
		{
			"abbreviation of a flag whose name begins others", "--prefill-p random --decode-p random --vllm-d a:1 --vllm-p", "",
			"--prefill-policy=random --decode-policy=random --vllm-discovery-address=a:1 --vllm-pd-disaggregation=true",
		},
		{"abbreviation", "--eviction-interval 3 --worker-u a", "", "--eviction-interval-secs=3 --worker-urls=a"},
		{"abbreviation with equals", "--eviction=3", "", "--eviction-interval-secs=3"},
		{"abbreviation means the reference's flag before ours", "--request-t 9", "", "--request-timeout-secs=9"},
		{"abbreviation means the Python front end's flag before the Rust one's", "--api k", "", "--api-key=k"},
		{"abbreviation of a flag of ours", "--shutdown-d 1", "", "--shutdown-delay-secs=1"},
		{"exact name that begins another", "--retry-max-retries 2 --policy random", "", "--retry-max-retries=2 --policy=random"},
		{"demo", "demo --listen a:1 --port 2", "demo", "--listen=a:1 --port=2"},
		{"help wins over faults", "--nonsense --help --port", "", "--help"},
		{"short help", "demo -h", "demo", "--help"},
		{"help cut short", "--hel", "", "--help"},
		{"version", "demo --version", "", "--version"},
		{"short version", "-V", "", "--version"},
		{"refused flag at a harmless value", "--backend=vllm --port 1", "", "--port=1"},
		{"refused switch that is off", "--enable-program-scheduling false --mini-lb=False --port 1", "", "--port=1"},
		{"backends that need nothing", "--backend vllm --runtime openai --port 1", "", "--port=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := normaliseRouter(strings.Fields(c.args)...)
			if strings.Join(got.args, " ") != c.want || got.command != c.command {
				t.Errorf("command %q, arguments %q, want %q, %q", got.command, got.args, c.command, c.want)
			}
			if len(got.faults) > 0 {
				t.Errorf("faults %v, want none", got.faults)
			}
		})
	}
}

func TestNormaliseFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		args string
		want []string
	}{
		{"unknown", "--wroker-urls a b --port 1", []string{"--wroker-urls is not a flag: did you mean --worker-urls?"}},
		{"underscores", "--worker_urls=a", []string{"--worker_urls is not a flag: did you mean --worker-urls?"}},
		{"unknown and unlike any", "--frobnicate 3", []string{"--frobnicate is not a flag: see --help"}},
		{"like a refused one", "--enable-progam-scheduling", []string{"--enable-progam-scheduling is not a flag: did you mean --enable-program-scheduling?"}},
		{"no name", "--=3 --", []string{"-- is not a flag: see --help"}},
		{"one dash", "-port 3", []string{"-port: flags begin with two dashes: write --port"}},
		{"one dash and unknown", "-x", []string{"-x is not a flag: see --help"}},
		{"ambiguous", "--log x", []string{"--log may be --log-dir or --log-level: write the name out"}},
		{"ambiguous with a refused one", "--enable- x", []string{"--enable- may be --enable-igw or --enable-program-scheduling: write the name out"}},
		{"no value", "--port --host a", []string{"--port needs a value: write --port PORT, or --port=PORT if it begins with a dash"}},
		{"no value at the end", "--api-key", []string{"--api-key needs a value: write --api-key KEY, or --api-key=KEY if it begins with a dash"}},
		{"stray argument", "serve", []string{`unexpected argument "serve": flags begin with two dashes, several values follow their flag separated by spaces, and a command such as demo or top comes first; --help lists them`}},
		{"second value of a scalar", "--port 1 2", []string{`unexpected argument "2"`}},
		{"second value of a key", "--api-key a secret", []string{"unexpected argument behind the value of --api-key: is there a space in that value?"}},
		{"key that begins with a dash", "--admin-api-key -secret", []string{
			"--admin-api-key needs a value: write --admin-api-key KEY, or --admin-api-key=KEY if it begins with a dash",
			"what follows --admin-api-key is not a flag: write --admin-api-key=KEY if the value begins with a dash",
		}},
		{"value after an inline list", "--worker-urls=a b", []string{`unexpected argument "b"`}},
		{"demo too late", "--port 1 demo", []string{`unexpected argument "demo"`}},
		{"word after a switch", "--disable-retries yes", []string{`unexpected argument "yes"`}},
		{"refused, with all its values, once", "--wasm-middleware a=b c=d --wasm-middleware e=f --history-backend memory", []string{
			"--wasm-middleware is not supported: there is no WASM runtime",
			"--history-backend is not supported: conversations are kept by the workers",
		}},
		{"port behind an inline prefill worker", "--prefill=http://a:1 8998", []string{`unexpected argument "8998"`}},
		{"refused, cut short", "--enable-pro", []string{"--enable-program-scheduling is not in this version"}},
		{"refused value that is not harmless", "--runtime trtllm", []string{"--runtime is not supported: workers speak"}},
		{"refused without a value", "--history-backend", []string{"--history-backend is not supported"}},
		{"never", "--wasm-middleware a.wasm", []string{"--wasm-middleware is not supported: there is no WASM runtime"}},
		{"backend", "--backend trtllm", []string{"--backend is not supported: workers speak"}},
		{"listen is for the demo", "--listen a:1", []string{"--listen is not a flag"}},
		{"all at once", "--x1y2 --port --mini-lb z", []string{"--x1y2 is not a flag", "--port needs a value", "--mini-lb is not supported"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := normaliseRouter(strings.Fields(c.args)...).faults
			if !slices.EqualFunc(got, c.want, func(err error, want string) bool { return strings.HasPrefix(err.Error(), want) }) {
				t.Errorf("faults %q, want those that begin with %q", got, c.want)
			}
		})
	}
}

// An abbreviation must mean what it means to vllm-router, whatever flags are
// added here: each prefix that is unambiguous among the reference's Python flags
// must give the flag it gives there.
func TestFlagsOfOursNeverShadowAbbreviations(t *testing.T) {
	var names []string
	for _, f := range referenceFlags {
		if !f.rust {
			names = append(names, f.name)
		}
	}
	names = append(names, helpFlag)
	words := newVocabulary(options(new(config)))
	checked := 0
	for _, name := range names {
		for n := 1; n < len(name); n++ {
			prefix := name[:n]
			meant := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return !strings.HasPrefix(s, prefix) })
			if len(meant) > 1 || slices.Contains(names, prefix) {
				continue
			}
			checked++
			if got, err := words.resolve("--" + prefix); got != name {
				t.Errorf("--%s is %q (%v), want %q", prefix, got, err, name)
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d abbreviations checked, want at least 100", checked)
	}
}

// FuzzNormalise writes known flags in every spelling that is understood and
// compares with what they plainly mean. Each pair of bytes is a flag and a
// spelling.
func FuzzNormalise(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 2, 2, 3, 3, 70, 4, 12, 5})
	f.Add([]byte{4, 3, 4, 0, 15, 1, 15, 2})
	opts := options(new(config))
	f.Fuzz(func(t *testing.T, choices []byte) {
		var args, want []string
		for i := 0; i+1 < len(choices); i += 2 {
			o, spelling := opts[int(choices[i])%len(opts)], int(choices[i+1])
			a, w := spell(o, spelling)
			args, want = append(args, a...), append(want, w...)
		}
		got := normaliseRouter(args...)
		if !slices.Equal(got.args, want) || len(got.faults) > 0 {
			t.Fatalf("%q gave %q, faults %v, want %q", args, got.args, got.faults, want)
		}
		if again := normaliseRouter(got.args...); !slices.Equal(again.args, got.args) {
			t.Errorf("%q normalised again gave %q", got.args, again.args)
		}
	})
}

// spell writes a flag in one of its spellings and in the normal one.
func spell(o *option, spelling int) (args, want []string) {
	name := "--" + o.name
	inline := spelling%2 == 1
	switch {
	case o.isSwitch():
		value := []string{"true", "false"}[spelling/2%2]
		want = []string{name + "=" + value}
		switch {
		case inline:
			return want, want
		case value == "true" && spelling/4%2 == 1:
			return []string{name}, want
		}
		return []string{name, value}, want
	case o.many != nil && !inline:
		args = []string{name}
		for n := range spelling / 2 % 4 {
			value := "u://" + strings.Repeat("v", n)
			args = append(args, value)
			if o.joined && spelling/8%2 == 1 {
				args = append(args, "1")
				value += " 1"
			}
			want = append(want, name+"="+value)
		}
		if want == nil {
			want = []string{name + "="}
		}
		return args, want
	case inline:
		return []string{name + "=-v="}, []string{name + "=-v="}
	}
	return []string{name, "-1.5"}, []string{name + "=-1.5"}
}

// FuzzArguments feeds anything: nothing may panic, and every argument that gets
// through is a flag that is known, with its value.
func FuzzArguments(f *testing.F) {
	f.Add("--worker-urls a b --policy x -h")
	f.Add("demo --listen\x00--=\x00-\x00--\x00---\x00-1")
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.FieldsFunc(joined, func(r rune) bool { return r == 0 || r == ' ' })
		got := normaliseRouter(args...)
		words := newVocabulary(commandOptions(new(config), got.command))
		for _, arg := range got.args {
			name, _, inline := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if _, known := words.options[name]; (!known || !inline) && name != helpFlag && name != versionFlag {
				t.Errorf("%q let %q through", args, arg)
			}
		}
		if _, err := parse(args, nil); (err == nil) != (exitCode(err) == 0) {
			t.Errorf("%q: error %v, exit code %d", args, err, exitCode(err))
		}
	})
}
