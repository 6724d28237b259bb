//go:build !unix

package program

func ignoreClosedPipes() {}
