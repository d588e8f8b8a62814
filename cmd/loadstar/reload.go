package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// reloadEvery is how often files are looked at for changes.
const reloadEvery = 2 * time.Second

// watchedFiles is files that belong together.
type watchedFiles struct {
	paths []string
	load  func() (what string, err error) // reads them, and names what is in them
	seen  []os.FileInfo                   // as they were before they were last read
}

// open reads files, and has them read again when they change.
func (a *access) open(load func() (what string, err error), paths ...string) error {
	w := &watchedFiles{paths: paths, load: load}
	w.seen = w.look()
	a.files = append(a.files, w)
	_, err := load()
	return err
}

// look tells how the files are, nil for one that cannot be seen.
func (w *watchedFiles) look() []os.FileInfo {
	infos := make([]os.FileInfo, len(w.paths))
	for i, path := range w.paths {
		if info, err := os.Stat(path); err == nil {
			infos[i] = info
		}
	}
	return infos
}

// check reads the files again if one has changed, or if asked. What is faulty is
// left until it changes again.
func (w *watchedFiles) check(asked bool, log *slog.Logger) {
	now := w.look() // before they are read: a change meanwhile is seen next time
	if !asked && slices.EqualFunc(now, w.seen, sameFile) {
		return
	}
	w.seen = now
	what, err := w.load()
	if err != nil {
		log.Error("a file has changed and is not used; what was read before is", "error", err)
		return
	}
	log.Info("read again", "files", w.paths, "what", what)
}

// sameFile reports whether nothing tells two looks at a path apart.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// keepFresh reads files again that change, until ctx ends, and all of them on
// SIGHUP. Without files that signal does what it does to any program.
func keepFresh(ctx context.Context, files []*watchedFiles, log *slog.Logger) {
	if len(files) == 0 {
		return
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	tick := time.NewTicker(reloadEvery)
	go func() {
		defer signal.Stop(hup)
		defer tick.Stop()
		for {
			asked := false
			select {
			case <-ctx.Done():
				return
			case <-hup:
				asked = true
			case <-tick.C:
			}
			for _, w := range files {
				w.check(asked, log)
			}
		}
	}()
}
