//go:build !testclock

package main

import "time"

func now() time.Time { return time.Now() }
