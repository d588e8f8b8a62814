package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"loadstar/bench/report"
)

func reportCommand() *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "make pages and charts from raw results",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "`DIRECTORY` of the raw results, where pages and charts go too", Value: "bench/results"},
		},
		Action: func(c *cli.Context) error {
			pages, err := report.Files(c.String("dir"))
			for _, p := range pages {
				fmt.Fprintln(c.App.Writer, p)
			}
			if err == nil && len(pages) == 0 {
				err = fmt.Errorf("%s has no raw results: make some with go run ./bench compare", c.String("dir"))
			}
			return err
		},
	}
}
