package main

import (
	"context"
	"fmt"
	"os"
)

// version is set by the build.
var version = "dev"

func main() {
	err := program{version: version, env: os.LookupEnv, out: os.Stdout, route: route, demo: demo, top: showTop, check: check}.run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(exitCode(err))
}
