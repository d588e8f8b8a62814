//go:build !linux

package upstream

// Asks reports whether a small request goes out by Ask, which needs Linux.
func (c *Conn) Asks() bool { return false }

// Ask is not called here; see Asks.
func (c *Conn) Ask([]byte) {}

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (int, error) { return c.Conn.Read(p) }

func (c *Conn) turn(uintptr) bool { return true }
