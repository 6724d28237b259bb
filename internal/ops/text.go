package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Text is what a caller wrote. In JSON it is a string; what is no UTF-8, and
// would be altered there, is an object {"base64": "..."}, so that it is refused
// for what it is. Nil is null: nothing was written.
type Text []byte

// coded is a text that no JSON string can hold.
type coded struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes the text.
func (t Text) MarshalJSON() ([]byte, error) {
	switch {
	case t == nil:
		return []byte("null"), nil
	case !utf8.Valid(t):
		return json.Marshal(coded{t})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(string(t))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// UnmarshalJSON reads the text.
func (t *Text) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = nil
		return nil
	}
	var s string
	if json.Unmarshal(data, &s) == nil {
		*t = Text(s)
		return nil
	}
	var c struct {
		Base64 *[]byte `json:"base64"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil || c.Base64 == nil {
		return fmt.Errorf("a text is a string, or {\"base64\": \"...\"}, and not %.60s; write other JSON into a string", data)
	}
	*t = append(Text{}, *c.Base64...)
	return nil
}
