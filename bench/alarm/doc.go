// Package alarm has a timer that goes off within some tens of microseconds.
//
// The runtime's timers wait in epoll, whose timeout is in milliseconds, so in an
// idle process they are up to a millisecond late: with a time scale of 20 that is 20
// ms of what is measured. Linux tells of a timer by a file, too, and precisely.
package alarm
