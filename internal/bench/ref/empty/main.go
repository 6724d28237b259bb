// Command empty does nothing. What it takes is what any program takes to be
// started and waited for.
package main

func main() {}
