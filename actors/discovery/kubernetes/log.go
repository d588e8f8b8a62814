package kubernetes

import (
	"context"
	"log/slog"

	"k8s.io/klog/v2"
)

// RouteLogs sends what the Kubernetes libraries have to log, which they do for the
// whole process, to log, for debugging: what matters of it sources tell. It must be
// called before the first client is made.
func RouteLogs(log *slog.Logger) { klog.SetSlogLogger(slog.New(quiet{log.Handler()})) }

// quiet makes everything a line for debugging.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler. Errors come unasked whether it is enabled.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if !q.Enabled(ctx, r.Level) {
		return nil
	}
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
