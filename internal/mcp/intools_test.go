package mcp

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"decklog/commands"
)

func TestACommandIsWrittenAsTheCallOfATool(t *testing.T) {
	for said, want := range map[string]string{
		`decklog send --reply-to abc -- "your answer"`:                     `decklog_send {"reply_to":"abc","body":"your answer"}`,
		`decklog send --to @smith --ref file:a --as SESSION -- "it's"`:     `decklog_send {"to":"@smith","refs":["file:a"],"body":"it's"}`,
		`decklog send --to bob --ref file:a --ref commit:4f2a9c1 -- hi`:    `decklog_send {"to":"bob","refs":["file:a","commit:4f2a9c1"],"body":"hi"}`,
		`decklog wait abc --timeout 120s`:                                  `decklog_wait {"id":"abc","timeout_seconds":55}`,
		`decklog handoff accept h1`:                                        `decklog_handoff {"do":"accept","handoff":"h1"}`,
		`decklog handoff offer t1 --to trinity --reason "r"`:               `decklog_handoff {"do":"offer","thread":"t1","to":"trinity","reason":"r"}`,
		`decklog review check t1 --commit 4f2a9c1`:                         `decklog_review {"do":"check","thread":"t1","commit":"4f2a9c1"}`,
		`decklog review label r1 root low`:                                 `decklog_review {"do":"label","review":"r1","label":"root","risk":"low"}`,
		`decklog turn t1 --block`:                                          `decklog_turn {"thread":"t1","block":true}`,
		`decklog inbox --sent`:                                             `decklog_inbox {"sent":true}`,
		`decklog policy show`:                                              `in a shell: decklog policy show`,
		`decklog owed close i1 --reason "r"`:                               `in a shell: decklog owed close i1 --reason "r"`,
		"keep working, or wait with `decklog wait abc --timeout 5s`.":      `keep working, or wait with decklog_wait {"id":"abc","timeout_seconds":5}.`,
		"wait; --over sends all the same":                                  `wait; over sends all the same`,
		"name the recipient with --to, or what you answer with --reply-to": `name the recipient with to, or what you answer with reply_to`,
		"write it after --, or give it on standard input with -":           `write it in body`,
		"final with `decklog edit abc --turn final -- TEXT`":               `final with decklog_edit {"message":"abc","turn":"final","body":"TEXT"}`,
		"put it there, by @smith's word":                                   `put it there, by @smith's word`,
	} {
		if got := inTools(said); got != want {
			t.Errorf("%s\nis written %s\nwant       %s", said, got, want)
		}
	}
}

// What a refusal shows as a call is one that its tool takes.
func TestTheExampleOfEveryRefusalIsACallThatItsToolTakes(t *testing.T) {
	byName := map[string]tool{}
	for _, tool := range tools() {
		byName[tool.name] = tool
		if name, _, _ := strings.Cut(tool.example, " "); name != tool.name {
			t.Errorf("the example of %s is %s", tool.name, tool.example)
		}
	}
	var examples []string
	for _, code := range commands.Codes() {
		examples = append(examples, inTools(commands.Refuse(code, "").Example))
	}
	for _, tool := range byName {
		examples = append(examples, tool.example)
	}
	shells := 0
	for _, example := range examples {
		if strings.HasPrefix(example, "in a shell: decklog ") {
			shells++
			continue
		}
		name, input, _ := strings.Cut(example, " ")
		var given map[string]json.RawMessage
		if err := json.Unmarshal([]byte(input), &given); err != nil || byName[name].in == nil {
			t.Errorf("%s is no call: %v", example, err)
			continue
		}
		fields := map[string]field{}
		for _, f := range fieldsOf(byName[name].in) {
			fields[f.name] = f
		}
		for field, value := range given {
			f, known := fields[field]
			var v any
			if _ = json.Unmarshal(value, &v); !known || f.kind == reflect.Slice != (reflect.TypeOf(v).Kind() == reflect.Slice) {
				t.Errorf("%s: %s takes no such %s", example, name, field)
			}
		}
		for _, f := range fields {
			if f.needed && given[f.name] == nil {
				t.Errorf("%s lacks %s", example, f.name)
			}
		}
	}
	if shells > 5 {
		t.Errorf("%d examples are for a shell", shells)
	}
}
