package esdbdouble

import (
	"errors"
	"sort"
)

// pageMax is how many events the server looks up at once. Between two pages of
// one read the log may change.
const pageMax = 32

var (
	errNoStream     = errors.New("no such stream")
	errInvalidPlace = errors.New("no record begins there")
)

// page is a stretch of a stream or of the log.
type page struct {
	events     []*record
	considered int   // how many events were looked at
	next       place // of $all: where the next page begins
	number     int64 // of a stream: where the next page begins
	end        bool
}

// stream looks up a page of a stream: most numbers of it, from one on. The end
// of the stream is asked for as the greatest number.
func (l *Log) stream(name string, from int64, most int, backwards bool, until int64) (page, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	last, about := l.last(name, until), l.about(name, until)
	switch {
	case last == tombstone:
		return page{}, deleted{}
	case last < 0 || about.before == tombstone:
		return page{}, errNoStream
	}
	low := max(0, about.before)
	if about.maxCount != nil {
		low = max(low, last-*about.maxCount+1)
	}
	young := func(r *record) bool {
		return about.maxAge == nil || !r.created.Before(l.now().Add(-*about.maxAge))
	}

	var p page
	seen := l.seen(name, until)
	step, n := int64(1), max(from, low)
	if backwards {
		step, n = -1, min(from, last)
	}
	for ; low <= n && n <= last && p.considered < most; n += step {
		if p.considered++; young(seen[n]) {
			p.events = append(p.events, seen[n])
		}
	}
	p.number, p.end = n, n < low || n > last
	return p, nil
}

// all looks up events of the log at a place and after it, of which no more than
// window are considered and no more than most are let through.
func (l *Log) all(from place, most, window int, lets func(*record) bool, until int64) (page, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.begins(from.commit) {
		return page{}, errInvalidPlace
	}
	p := page{next: from}
	for i := sort.Search(len(l.records), func(i int) bool { return l.records[i].place().compare(from) >= 0 }); ; i++ {
		if i == len(l.records) || l.records[i].position >= until {
			p.end = true
			return p, nil
		}
		if len(p.events) >= most || p.considered >= window {
			return p, nil
		}
		r := l.records[i]
		p.next = place{r.end, 0}
		if r.hidden {
			continue
		}
		p.considered++
		if lets(r) {
			p.events = append(p.events, r)
		}
	}
}

// allBackwards looks up events of the log that end at a place or before it.
func (l *Log) allBackwards(from place, most, window int, lets func(*record) bool, until int64) (page, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.begins(from.commit) {
		return page{}, errInvalidPlace
	}
	p := page{next: from}
	after := func(i int) bool {
		r := l.records[i]
		return r.position >= until || (place{r.end, r.end}).compare(from) > 0
	}
	for i := sort.Search(len(l.records), after) - 1; ; i-- {
		if i < 0 {
			p.end = true
			return p, nil
		}
		if len(p.events) >= most || p.considered >= window {
			return p, nil
		}
		r := l.records[i]
		p.next = r.place()
		if r.hidden {
			continue
		}
		p.considered++
		if lets(r) {
			p.events = append(p.events, r)
		}
	}
}

// begins says whether a record begins at a byte of the log. Nobody who asks with
// a position that he was given fails here, but one who reckoned with positions
// does. The caller holds the lock.
func (l *Log) begins(at int64) bool {
	if at >= l.end || at <= 0 {
		return true
	}
	i := sort.Search(len(l.records), func(i int) bool { return l.records[i].position >= at })
	return l.records[i].position == at
}

// newest is the place of the last event before a place in the log.
func (l *Log) newest(until int64) place {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i := sort.Search(len(l.records), func(i int) bool { return l.records[i].position >= until })
	if i == 0 {
		return beforeAll
	}
	return l.records[i-1].place()
}
