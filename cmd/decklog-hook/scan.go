package main

// said is what a harness said, as far as it matters here.
type said struct {
	event, session, conversation, agent, transcript, cwd string
}

// scan reads the fields of a JSON object that matter, without making anything of
// the others, which may be large. It is not whole when the text is no object
// from its first to its last byte, or when a field that matters is written in a
// way that only a full reader should read.
func scan(b []byte) (s said, whole bool) {
	i := blanks(b, 0)
	if i >= len(b) || b[i] != '{' {
		return s, false
	}
	i = blanks(b, i+1)
	if i < len(b) && b[i] == '}' {
		return s, blanks(b, i+1) == len(b)
	}
	for {
		name, next, ok := text(b, i)
		if !ok {
			return s, false
		}
		i = blanks(b, next)
		if i >= len(b) || b[i] != ':' {
			return s, false
		}
		i = blanks(b, i+1)
		var field *string
		switch name {
		case "hook_event_name":
			field = &s.event
		case "session_id":
			field = &s.session
		case "conversation_id":
			field = &s.conversation
		case "agent_id":
			field = &s.agent
		case "transcript_path":
			field = &s.transcript
		case "cwd":
			field = &s.cwd
		}
		value, next, plain := text(b, i)
		switch {
		case field != nil && plain:
			*field, i = value, next
		case field == &s.event || field == &s.session || (field == &s.agent || field == &s.transcript) && i < len(b) && b[i] == '"':
			return s, false
		default:
			if field != nil {
				*field = "" // a path that only a full reader reads matters little
			}
			if i = skip(b, i); i < 0 {
				return s, false
			}
		}
		i = blanks(b, i)
		switch {
		case i >= len(b):
			return s, false
		case b[i] == '}':
			return s, blanks(b, i+1) == len(b)
		case b[i] != ',':
			return s, false
		}
		i = blanks(b, i+1)
	}
}

func blanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// text reads a string of plain ASCII without escapes, and gives the place behind it.
func text(b []byte, i int) (value string, next int, ok bool) {
	if i >= len(b) || b[i] != '"' {
		return "", i, false
	}
	for j := i + 1; j < len(b); j++ {
		switch c := b[j]; {
		case c == '"':
			return string(b[i+1 : j]), j + 1, true
		case c == '\\' || c < ' ' || c > '~':
			return "", i, false
		}
	}
	return "", i, false
}

// skip gives the place of the comma or brace that ends a value of any kind;
// below 0 when it has no end.
func skip(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}
