package sqlite

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// busyTimeout is how long a statement waits for locks of other processes, unless
// the ledger has another [Patience].
const busyTimeout = 10 * time.Second

// setting is a PRAGMA and its value.
type setting struct {
	name  string
	value int64
}

// settings are what each connection is given and asked for again, because what
// the driver or the file says otherwise shows only when it is too late: by
// default a commit to a write-ahead log does not survive a power cut.
func settings(journal string, busy time.Duration) []setting {
	synchronous := int64(2) // FULL; of a mirror's log see logFile
	if journal == journalDelete {
		synchronous = 3 // EXTRA: a commit is the removal of the journal, so that must be durable too
	}
	return []setting{
		{"busy_timeout", busy.Milliseconds()},
		{"synchronous", synchronous},
		{"foreign_keys", 1},
		{"secure_delete", 1},      // a dropped body is overwritten, not only let go
		{"temp_store", 2},         // and no part of one passes through a temporary file
		{"trusted_schema", 0},     // the file's own SQL gets no function that acts outside it
		{"recursive_triggers", 1}, // REPLACE does not go past the triggers either
		{"cache_size", -8192},     // KiB: the pages of a question of hundreds of rows stay for the next
		{"wal_autocheckpoint", 1000},
		{"journal_size_limit", 16 << 20},
	}
}

// connection is one handle on the ledger's file, for one goroutine at a time.
type connection struct {
	db         *sqlite3.Conn
	busy       time.Duration            // its busy_timeout
	statements map[string]*sqlite3.Stmt // prepared once, by their text
	mirror     bool
	open       bool // though no write transaction has it: it has written nothing, and goes on with the next
	goesOn     bool // the write transaction that has it goes on with the last one's snapshot
	logPages   int  // of the write-ahead log, after the last commit; counted for groups alone
}

// connect opens a file that is there.
func connect(path string, o options) (*connection, error) {
	// modeof: a new write-ahead log gets the file's owner and rights.
	uri := "file:" + escape(path) + "?vfs=" + o.vfs + "&modeof=" + escape(path)
	db, err := sqlite3.OpenFlags(uri, sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		return nil, explain(err)
	}
	c := &connection{db: db, busy: o.busyTimeout, mirror: o.mirror, statements: map[string]*sqlite3.Stmt{}}
	if c.busy == 0 {
		c.busy = busyTimeout
	}
	if err := c.settle(o.journal); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// escape writes a path for SQLite's URIs, which know no "+" for a blank.
func escape(path string) string {
	return strings.ReplaceAll(url.QueryEscape(path), "+", "%20")
}

// settle makes the settings and asserts that they hold.
func (c *connection) settle(journal string) error {
	for _, s := range settings(journal, c.busy) {
		want := strconv.FormatInt(s.value, 10)
		if err := c.db.Exec("PRAGMA " + s.name + "=" + want); err != nil {
			return fmt.Errorf("set %s: %w", s.name, explain(err))
		}
		switch got, err := c.pragma(s.name); {
		case err != nil:
			return err
		case got != want:
			return fmt.Errorf("set %s: it is %s, not %s", s.name, got, want)
		}
	}
	return nil
}

// pragma runs one PRAGMA and gives its answer as text.
func (c *connection) pragma(text string) (string, error) {
	s, _, err := c.db.Prepare("PRAGMA " + text)
	if err != nil {
		return "", fmt.Errorf("pragma %s: %w", text, explain(err))
	}
	defer s.Close()
	var answer string
	for s.Step() {
		answer = s.ColumnText(0)
	}
	if err := s.Err(); err != nil {
		return "", fmt.Errorf("pragma %s: %w", text, explain(err))
	}
	return answer, nil
}

// run executes a statement without results. It gives SQLite's own error.
func (c *connection) run(sql string, args ...any) error {
	s, err := c.bind(sql, args)
	if err != nil {
		return err
	}
	return s.Exec()
}

// exec is run, with the error explained.
func (c *connection) exec(sql string, args ...any) error { return explain(c.run(sql, args...)) }

// query executes a statement and calls row with each result. What row takes
// from a result it copies.
func (c *connection) query(row func(*sqlite3.Stmt), sql string, args ...any) error {
	s, err := c.bind(sql, args)
	if err != nil {
		return explain(err)
	}
	defer s.Reset()
	for s.Step() {
		row(s)
	}
	return explain(s.Err())
}

// bind finds or prepares the statement and gives it its arguments.
func (c *connection) bind(sql string, args []any) (*sqlite3.Stmt, error) {
	s := c.statements[sql]
	if s == nil {
		var err error
		if s, _, err = c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return nil, err
		}
		c.statements[sql] = s
	}
	for i, arg := range args {
		var err error
		switch v := arg.(type) {
		case int64:
			err = s.BindInt64(i+1, v)
		case string:
			err = s.BindText(i+1, v)
		case []byte:
			if v == nil {
				v = []byte{} // no text is not NULL
			}
			err = s.BindBlob(i+1, v)
		default:
			panic(fmt.Sprintf("sqlite: bind a %T", arg))
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// commit makes the transaction durable. It gives SQLite's own error.
func (c *connection) commit() error {
	if file, err := c.db.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER); err == nil {
		if log, is := file.(*logFile); is {
			defer log.gather(c.mirror)()
		}
	}
	return c.run("COMMIT")
}

// rollback ends the transaction, if there is one, without a trace.
func (c *connection) rollback() {
	if !c.db.GetAutocommit() {
		c.run("ROLLBACK") // if it fails the pool sees it, and lends the connection to nobody
	}
}

// emptyLog moves the write-ahead log into the file and cuts it to nothing,
// unless a reader is in the way.
func (c *connection) emptyLog() error {
	c.db.BusyTimeout(scrubWaitMax)
	defer c.db.BusyTimeout(c.busy)
	_, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE)
	return err
}

func (c *connection) close() error {
	for _, s := range c.statements {
		s.Close()
	}
	return c.db.Close()
}

// pool lends connections, connectionsMax of them at once. The one that came
// back last goes out first, so that a short command opens only one.
type pool struct {
	connect func() (*connection, error)
	lent    chan struct{} // holds one token for each

	mu      sync.Mutex
	idle    []*connection
	refusal error // why none is lent any more
}

func (p *pool) init(connect func() (*connection, error)) {
	p.connect = connect
	p.lent = make(chan struct{}, connectionsMax)
}

func (p *pool) lend() (c *connection, err error) {
	p.lent <- struct{}{}
	defer func() {
		if c == nil { // it failed, or panicked
			<-p.lent
		}
	}()
	c, err = p.take()
	if err == nil && c == nil {
		c, err = p.connect()
	}
	return c, err
}

// take gives an idle connection; nil when there is none.
func (p *pool) take() (*connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if p.refusal != nil || last < 0 {
		return nil, p.refusal
	}
	c := p.idle[last]
	p.idle = p.idle[:last]
	return c, nil
}

func (p *pool) giveBack(c *connection) {
	defer func() { <-p.lent }()
	if c.db.GetAutocommit() {
		p.mu.Lock()
		p.idle = append(p.idle, c)
		p.mu.Unlock()
	} else {
		c.close() // it could not roll back
	}
}

// refuse ends the lending; the first reason stays.
func (p *pool) refuse(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusal == nil {
		p.refusal = reason
	}
}

// refused is why none is lent any more; nil while they are.
func (p *pool) refused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusal
}

// close waits until all connections are back, and closes them. None is lent any
// more when it is called.
func (p *pool) close() error {
	for range connectionsMax {
		p.lent <- struct{}{}
		defer func() { <-p.lent }()
	}
	var first error
	for _, c := range p.idle {
		if err := c.close(); err != nil && first == nil {
			first = err
		}
	}
	p.idle = nil
	return first
}
