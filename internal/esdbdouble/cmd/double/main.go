// Command double runs doubles of an EventStoreDB server for clients that are not
// in this module: the vendor's own tests, and clients in other languages.
//
//	double -insecure localhost:2114 -secure localhost:2115 -certs DIR go test ...
//
// starts the servers, runs the command, ends the servers with it and gives its
// exit code. Without a command it says where it listens, and ends when its input
// does. With -log the log of its one server, or its one cluster, outlives it.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"decklog/internal/esdbdouble"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "double:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	flags := flag.NewFlagSet("double", flag.ContinueOnError)
	insecure := flags.String("insecure", "", "a server by itself on `HOST:PORT`, for anybody")
	secure := flags.String("secure", "", "a server by itself on `HOST:PORT`, with TLS and the user admin:changeit")
	cluster := flags.String("cluster", "", "a cluster on `HOST:PORT,HOST:PORT,...`, with TLS and the same user")
	certs := flags.String("certs", "", "the `DIR` that holds node.crt and node.key for -secure and -cluster")
	file := flags.String("log", "", "keep the log in `FILE`, of which one server or one cluster goes on when it starts")
	version := flags.String("version", esdbdouble.DefaultVersion, "the `VERSION` that the servers say they have")
	if err := flags.Parse(args); err != nil {
		return 2, nil // flag has said what is wrong
	}

	open := esdbdouble.Config{Address: *insecure, Version: *version}
	closed := esdbdouble.Config{Address: *secure, Version: *version, Users: []esdbdouble.User{{Name: "admin", Password: "changeit", Admin: true}}}
	if *secure != "" || *cluster != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(*certs, "node.crt"), filepath.Join(*certs, "node.key"))
		if err != nil {
			return 0, fmt.Errorf("read certificate: %w", err)
		}
		closed.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	newLog := func() *esdbdouble.Log { return esdbdouble.NewLog() } // another for each
	if *file != "" {
		if len(slices.DeleteFunc([]string{*insecure, *secure, *cluster}, func(at string) bool { return at == "" })) != 1 {
			return 0, errors.New("a log in a file is of one server, or of one cluster")
		}
		l, err := esdbdouble.Durable(*file)
		if err != nil {
			return 0, err
		}
		defer l.Close()
		newLog = func() *esdbdouble.Log { return l }
	}
	var where []string
	for _, c := range []esdbdouble.Config{open, closed} {
		if c.Address == "" {
			continue
		}
		s, err := esdbdouble.Start(newLog(), c)
		if err != nil {
			return 0, err
		}
		defer s.Stop()
		where = append(where, s.URL())
	}
	if *cluster != "" {
		var nodes []esdbdouble.Config
		for address := range strings.SplitSeq(*cluster, ",") {
			node := closed
			node.Address, node.Advertise = address, address
			nodes = append(nodes, node)
		}
		c, err := esdbdouble.StartCluster(newLog(), nodes...)
		if err != nil {
			return 0, err
		}
		defer c.Stop()
		where = append(where, c.Seeds())
	}
	if len(where) == 0 {
		flags.Usage()
		return 2, nil
	}

	if flags.NArg() == 0 {
		fmt.Println(strings.Join(where, "\n"))
		_, err := io.Copy(io.Discard, os.Stdin)
		return 0, err
	}
	command := exec.Command(flags.Arg(0), flags.Args()[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = command.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode(), nil
	}
	return 0, err
}
