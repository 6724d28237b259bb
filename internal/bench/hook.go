//go:build linux

package main

import "path/filepath"

func hookQuiet() row {
	return row{
		name:  "hook-quiet",
		lines: []line{{"hook run, nothing waiting", "reads its input", seconds, atMost(1.3)}},
		begin: func(b *bench) (round, error) {
			s, err := b.stage("hook-quiet")
			if err != nil {
				return nil, err
			}
			p := s.hook(bob, s.dir, "PostToolUse", "")
			if _, err := p.time(); err != nil { // the first finds out that nothing waits
				return nil, err
			}
			return beside(p, p.reference(b, "reader"), nil, nil), nil
		},
	}
}

func hookDelivers() row {
	return row{
		name:  "hook-delivers",
		lines: []line{{"hook run that delivers", "two fdatasync of 4 KiB", seconds, atMost(4)}},
		begin: func(b *bench) (round, error) {
			s, err := b.stage("hook-delivers")
			if err != nil {
				return nil, err
			}
			send := s.run("queued", "decklog", "send", "--as", alice, "--to", bob, "--", text)
			before := func() error { _, err := send.time(); return err }
			p := s.hook(bob, s.dir, "PostToolUse", "which commit fixed the lease test")
			return beside(p, p.reference(b, "sync2", filepath.Join(s.dir, "sync2")), before, nil), nil
		},
	}
}

func hookOff() row {
	return row{
		name:  "hook-off",
		lines: []line{{"hook run, DECKLOG=off", "reads its input", seconds, atMost(1.3)}},
		begin: func(b *bench) (round, error) {
			s, err := b.stage("hook-off")
			if err != nil {
				return nil, err
			}
			p := s.hook(bob, s.dir, "PostToolUse", "")
			p.env = append(p.env, "DECKLOG=off")
			return beside(p, p.reference(b, "reader"), nil, nil), nil
		},
	}
}

func hookIgnored() row {
	return row{
		name:  "hook-ignored",
		lines: []line{{"hook run, ignored directory", "reads its input", seconds, atMost(1.3)}},
		begin: func(b *bench) (round, error) {
			s, err := b.stage("hook-ignored")
			if err != nil {
				return nil, err
			}
			const carol = "7a1e9c40-1111-4222-8333-944455566677"
			p := s.hook(carol, filepath.Join(s.dir, "ignored"), "PostToolUse", "")
			if _, err := p.time(); err != nil { // the first finds out that it is ignored
				return nil, err
			}
			return beside(p, p.reference(b, "reader"), nil, nil), nil
		},
	}
}
