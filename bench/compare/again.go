package compare

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// Again runs this program on the cores that are not the routers', with arguments
// that depend on the router's core, and returns when it has ended. The end of ctx
// is passed on as a signal.
func Again(ctx context.Context, args func(routerCore int) []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	routers, others, err := split()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, args(routers[0])...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's interrupt comes by ctx, once
	if err := startOn(cmd, others); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	return cmd.Wait()
}
