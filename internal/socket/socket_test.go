package socket_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"decklog/internal/socket"
)

func TestASocketIsReachedHoweverDeepItsFolderLies(t *testing.T) {
	for name, folder := range map[string]string{"short": "s", "long": strings.Repeat("deep/", 40) + "down"} {
		t.Run(name, func(t *testing.T) {
			if name == "long" && runtime.GOOS != "linux" {
				t.Skip("only Linux reaches a socket through its open folder")
			}
			dir := filepath.Join(t.TempDir(), folder)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "x.sock")
			l, err := socket.Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, "here")
					_ = c.Close()
				}
			}()
			c, err := socket.Dial(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			if said, err := io.ReadAll(c); err != nil || string(said) != "here" {
				t.Errorf("it said %q, %v", said, err)
			}
			info, err := os.Lstat(path)
			if err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("others may open it: %v, %v", info.Mode(), err)
			}
			if _, err := socket.Listen(path); !errors.Is(err, socket.ErrInUse) {
				t.Errorf("a second one listens: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket stays: %v", err)
			}
		})
	}
}

func TestADeadSocketGivesWayAndAFileDoesNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	l, err := socket.Listen(path)
	if err != nil {
		t.Fatalf("a dead socket stands in the way: %v", err)
	}
	_ = l.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := socket.Listen(path); err == nil {
		t.Error("a file was taken for a socket")
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "mine" {
		t.Errorf("the file is %q, %v", kept, err)
	}
}

func TestWhoEndsTakesNoOtherSocketAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	first, err := socket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := socket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := socket.Dial(context.Background(), path)
	if err != nil {
		t.Fatalf("nobody reaches the second one: %v", err)
	}
	_ = c.Close()
}

func TestASocketWithMoreCallersThanItCanQueueIsAlive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	l, err := socket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 1 << 14 { // nobody accepts
		c, err := socket.Dial(context.Background(), path)
		if err != nil {
			break
		}
		defer c.Close()
	}
	if _, err := socket.Listen(path); !errors.Is(err, socket.ErrInUse) {
		t.Errorf("it was taken over: %v", err)
	}
}
