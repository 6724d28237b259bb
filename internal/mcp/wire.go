package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// LineBytesMax bounds one message on standard input.
const LineBytesMax = 32 << 20

// wire is standard input and output with what the SDK's transport lacks: a line
// that is no message is answered and passed over, where the SDK would end the
// connection; and whoever has something to confirm is told when an answer was
// written.
type wire struct {
	in    *bufio.Reader
	rest  []byte // of the line that is being read
	old   bool   // the protocol is one of those that have batches
	ended error

	writing sync.Mutex
	out     io.Writer

	expected
}

func newWire(in io.Reader, out io.Writer) *wire {
	return &wire{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

// Read gives the lines that are messages.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		if w.ended != nil {
			return 0, w.ended
		}
		line, whole, err := w.line()
		w.ended = err
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
		case !whole:
			err = w.complain(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message of more than %d bytes", LineBytesMax))
		default:
			if code, what := w.wrong(line); code != 0 {
				err = w.complain(idOf(line), code, what)
				break
			}
			w.rest = append(line, '\n')
		}
		if w.ended == nil {
			w.ended = err
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// line reads a line; of one that is too long only that it was there.
func (w *wire) line() (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := w.in.ReadSlice('\n')
		if whole = whole && len(line)+len(part) <= LineBytesMax; whole {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return line, whole, err
		}
	}
}

// wrong says what keeps a line from being handed on; 0: nothing.
func (w *wire) wrong(line []byte) (code int, what string) {
	if !json.Valid(line) {
		return jsonrpc.CodeParseError, "this is no JSON"
	}
	if line[0] == '[' {
		return w.wrongBatch(line)
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return jsonrpc.CodeInvalidRequest, "this is no message: " + err.Error()
	}
	if request, is := message.(*jsonrpc.Request); is && request.Method == "initialize" {
		var params struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(request.Params, &params) // what is wrong with it the SDK says
		w.old = params.ProtocolVersion == "2025-03-26" || params.ProtocolVersion == "2024-11-05"
	}
	return 0, ""
}

// wrongBatch looks at several messages in one line, which two old versions of the
// protocol have.
func (w *wire) wrongBatch(line []byte) (code int, what string) {
	var batch []json.RawMessage
	if !w.old {
		return jsonrpc.CodeInvalidRequest, "this version of the protocol has no batches"
	}
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		return jsonrpc.CodeInvalidRequest, "the batch is empty"
	}
	seen := map[any]bool{}
	for _, one := range batch {
		message, err := jsonrpc.DecodeMessage(one)
		if err != nil {
			return jsonrpc.CodeInvalidRequest, "the batch holds what is no message: " + err.Error()
		}
		if request, is := message.(*jsonrpc.Request); is && request.IsCall() {
			id := request.ID.Raw()
			if seen[id] {
				return jsonrpc.CodeInvalidRequest, fmt.Sprintf("the batch has the id %v twice", id)
			}
			seen[id] = true
		}
	}
	return 0, ""
}

// idOf is the id of what is no message, where it has one.
func idOf(line []byte) json.RawMessage {
	var v struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &v) != nil || len(v.ID) == 0 || v.ID[0] == '{' || v.ID[0] == '[' {
		return nil
	}
	return v.ID
}

func (w *wire) complain(id json.RawMessage, code int, what string) error {
	if id == nil {
		id = json.RawMessage("null")
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": what}})
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Write writes whole messages, and tells whoever waits for one.
func (w *wire) Write(p []byte) (int, error) {
	w.writing.Lock()
	_, err := w.out.Write(bare(p))
	w.writing.Unlock()
	if err != nil {
		return 0, err
	}
	w.tell(p)
	return len(p), nil
}

// bare writes the angle brackets and ampersands of a JSON text as they are. The
// SDK writes them as a page of HTML would need them, and a frame that is made of
// them half as large again.
func bare(p []byte) []byte {
	b := make([]byte, 0, len(p))
	for len(p) > 0 {
		switch {
		case p[0] != '\\' || len(p) < 2:
			b, p = append(b, p[0]), p[1:]
		case bytes.HasPrefix(p, []byte(`\u003c`)):
			b, p = append(b, '<'), p[6:]
		case bytes.HasPrefix(p, []byte(`\u003e`)):
			b, p = append(b, '>'), p[6:]
		case bytes.HasPrefix(p, []byte(`\u0026`)):
			b, p = append(b, '&'), p[6:]
		default:
			b, p = append(b, p[:2]...), p[2:]
		}
	}
	return b
}

// expected are the answers by whose writing something is confirmed.
type expected struct {
	mu      sync.Mutex
	written map[string]chan<- struct{} // by the token in the answer
}

// tell says that a text was written.
func (e *expected) tell(p []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for token, done := range e.written {
		if bytes.Contains(p, []byte(token)) {
			close(done)
			delete(e.written, token)
		}
	}
}

// expect gives what is closed once an answer with this token was written, and
// what to call when nobody waits any more.
func (e *expected) expect(token string) (<-chan struct{}, func()) {
	done := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.written == nil {
		e.written = map[string]chan<- struct{}{}
	}
	e.written[token] = done
	return done, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.written, token)
	}
}

// Close leaves standard input and output as they are.
func (w *wire) Close() error { return nil }
