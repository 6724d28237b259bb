package runs

import "time"

var began = time.Now()

// Took is how long this program has run, from where Go's part of it begins. What
// the system took to start it is not in it. Of a program that another became in
// mid-run it is the time of both, where [HandedOver] says so in its environment.
func Took(environ func(string) string) time.Duration {
	if before, known := handed(environ(variable)); known {
		return before
	}
	return time.Since(began)
}

// variable is where a program that becomes another leaves its beginning.
const variable = "DECKLOG_HOOK_BEGAN"
