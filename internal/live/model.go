package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// model stands in for the model of a harness: it answers on the loopback
// address as the step that the harness's user named is scripted, and keeps
// every request.
//
// A step is named in a prompt, as [[step NAME]]. What is not scripted, and every
// chore of the harness (a title, a summary), is answered with a few words.
type model struct {
	wire   wire
	folder string // where the requests are kept
	server *http.Server
	url    string

	mu       sync.Mutex
	scripts  map[string][]reply
	requests []*request
	faults   []string
}

// wire is the form in which a harness speaks to its model.
type wire interface {
	// asks says whether this is a request for an answer of the model.
	asks(r *http.Request) bool
	read(body []byte) (*request, error)
	write(w http.ResponseWriter, q *request, answer reply, number int)
}

// reply is what the model says to one request: a text, or a call of a tool.
type reply struct {
	// before runs when the request has come and before it is answered: what is
	// sent here waits for the hook that follows. It may fill the input.
	before func(q *request) error
	text   string
	space  string // the tool's namespace
	tool   string
	input  map[string]any
}

// request is what the model was sent once.
type request struct {
	number int
	step   string // the last that its user named
	agent  bool   // it may call tools: no chore
	texts  []said
	tools  []string
	stream bool
	size   int // in bytes, where the answer tells it
}

// said is one text in a request, and in whose name it stands there.
type said struct{ role, text string }

func newModel(wire wire, folder string) (*model, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &model{wire: wire, folder: folder, url: "http://" + listener.Addr().String(), scripts: map[string][]reply{}}
	m.server = &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = m.server.Serve(listener) }()
	return m, nil
}

func (m *model) close() { _ = m.server.Close() }

// script says how the requests of a step are answered, in their order.
func (m *model) script(step string, replies ...reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts[step] = append(m.scripts[step], replies...)
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil || !m.wire.asks(r) {
		http.Error(w, `{"error":{"type":"not_found_error","message":"not here"}}`, http.StatusNotFound)
		return
	}
	q, err := m.wire.read(body)
	if err != nil {
		m.fault("request to %s: %v", r.URL.Path, err)
		http.Error(w, `{"error":{"type":"invalid_request_error","message":"cannot be read"}}`, http.StatusBadRequest)
		return
	}
	if by, is := m.wire.(interface{ streams(*http.Request) bool }); is {
		q.stream = by.streams(r)
	}
	answer := reply{text: "Understood."}
	m.mu.Lock()
	q.number = len(m.requests) + 1
	m.requests = append(m.requests, q)
	if next := m.scripts[q.step]; q.agent && len(next) > 0 {
		answer, m.scripts[q.step] = next[0], next[1:]
	}
	m.mu.Unlock()
	if err := os.WriteFile(filepath.Join(m.folder, fmt.Sprintf("%03d-%s.json", q.number, q.step)), body, 0o600); err != nil {
		m.fault("keep request %d: %v", q.number, err)
	}
	if answer.before != nil {
		if err := answer.before(q); err != nil {
			m.fault("step %s: %v", q.step, err)
		}
	}
	m.wire.write(w, q, answer, q.number)
}

func (m *model) fault(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// trouble is what went wrong in the model's own part since it was last asked.
func (m *model) trouble() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.faults) == 0 {
		return nil
	}
	err := fmt.Errorf("the stub of the model: %s", strings.Join(m.faults, "; "))
	m.faults = nil
	return err
}

// of are the requests of an agent in a step.
func (m *model) of(step string) (all []*request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.requests {
		if q.agent && q.step == step {
			all = append(all, q)
		}
	}
	return all
}

// rest is what a step's script still holds: a step that ends as it should leaves nothing.
func (m *model) rest(step string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.scripts[step])
}

// frame is the opening tag of a message, in either form.
var frame = regexp.MustCompile(`[<\[]decklog-message id="([^"]+)"`)

var instruction = regexp.MustCompile(`[<\[]decklog-instruction `)

// frames counts the messages in a request, each by the opening tag of its frame.
func (q *request) frames() map[string]int {
	found := map[string]int{}
	for _, s := range q.texts {
		for _, id := range frame.FindAllStringSubmatch(s.text, -1) {
			found[id[1]]++
		}
	}
	return found
}

// instructions counts the standing instructions in a request.
func (q *request) instructions() (n int) {
	for _, s := range q.texts {
		n += len(instruction.FindAllString(s.text, -1))
	}
	return n
}

// roleOf is in whose name a message stands in a request.
func (q *request) roleOf(message string) string {
	for _, s := range q.texts {
		for _, id := range frame.FindAllStringSubmatch(s.text, -1) {
			if id[1] == message {
				return s.role
			}
		}
	}
	return ""
}

var marker = regexp.MustCompile(`\[\[step ([a-z-]+)\]\]`)

// named takes in a text of the user's own, which may name a step.
func (q *request) named(text string) {
	if all := marker.FindAllStringSubmatch(text, -1); all != nil {
		q.step = all[len(all)-1][1]
	}
}

// strand gives the text in a value that is either a string or a list of parts
// of which some have a text.
func strand(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var all []string
	for _, p := range parts {
		if p.Content != nil {
			p.Text += strand(p.Content)
		}
		all = append(all, p.Text)
	}
	return strings.Join(all, "\n")
}

// stream writes server-sent events.
type stream struct{ w http.ResponseWriter }

func newStream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return stream{w}
}

func (s stream) send(event string, fields map[string]any) {
	fields["type"] = event
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err) // made of strings and numbers
	}
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, b)
	if f, is := s.w.(http.Flusher); is {
		f.Flush()
	}
}
