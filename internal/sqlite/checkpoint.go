package sqlite

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ncruces/go-sqlite3"

	"decklog/events"
)

// SQLite moves the write-ahead log into the file at the end of the commit that has
// made it long, and whoever commits waits for that and its syncs. A grouped ledger
// moves it beside the commits instead, on another connection, whenever it has
// grown by movePages. Only a log of which all was moved can begin anew, so what was
// committed meanwhile, which is little, the next commit moves itself.
const movePages = 1000

// movePagesMirror is as many of a mirror's log. Whoever waits for a mirror waits for
// the cluster, and to move the log keeps the disk and this process busy; of a long
// one each page is moved once, however often it was written.
const movePagesMirror = 8000

func (l *Ledger) movePages() int {
	if l.mirror {
		return movePagesMirror
	}
	return movePages
}

// writerCacheKiB is the cache of the groups' connection. Each command touches some
// ten pages in as many places, and what is not in the cache is read.
const writerCacheKiB = 32 << 10

// forGroups makes a connection the one that groups have.
func (c *connection) forGroups() error {
	if _, err := c.pragma("cache_size=" + strconv.Itoa(-writerCacheKiB)); err != nil {
		return err
	}
	c.db.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error { // in place of the checkpoint of its own
		c.logPages = pages
		return nil
	})
	return nil
}

// shorten sees to it that the log does not grow for ever. It is called after a
// commit of a group, by the one that holds Ledger.writing.
func (l *Ledger) shorten(c *connection) {
	q, pages := l.groups, c.logPages
	if pages < q.logPages {
		q.moveAt = 0 // it has begun anew
	}
	q.logPages = pages
	switch {
	case pages < max(q.moveAt, l.movePages()) || q.moving.Load():
	case q.moved:
		l.move(c)
		q.moved, q.moveAt = false, pages+l.movePages()
	default:
		q.moved = true
		q.moving.Store(true)
		q.movers.Go(l.moveBeside)
	}
}

func (l *Ledger) moveBeside() {
	var err error
	defer l.groups.moving.Store(false)
	defer l.guard(&err)()
	c, err := l.connections.lend()
	if err != nil {
		return
	}
	defer l.connections.giveBack(c)
	l.move(c)
}

// move moves what it can of the log into the file. That it cannot, for readers or
// for want of space, costs nothing but a longer log.
func (l *Ledger) move(c *connection) {
	_, _, err := c.db.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	if errors.Is(err, sqlite3.IOERR_FSYNC) {
		// The pages may be lost, and the next sync say otherwise.
		err = fmt.Errorf("move the log: %w: %w", events.ErrUnknown, err)
		l.connections.refuse(err)
		l.watch.saw(0, err)
	}
}
