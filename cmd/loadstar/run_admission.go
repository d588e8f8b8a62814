package main

import (
	"loadstar/actors"
	"loadstar/proxy"
)

// putAdmission puts the limits and the queue into the proxy's options. The clock
// of those who wait is the proxy's own.
func putAdmission(o *proxy.Options, a admissionConfig) {
	o.Router.Room = actors.RoomOptions{
		MaxLive: a.MaxConcurrent, MaxPerWorker: a.MaxInflight,
		RatePerSecond: a.RatePerSecond, Burst: a.MaxConcurrent, // as vllm-router has it; without a limit, those of one second
		QueueSize: a.QueueSize, QueueTimeout: a.QueueTimeout, Ageing: a.QueueAgeing,
	}
	o.ClassHeader, o.TenantHeader, o.Deadline = a.PriorityHeader, a.TenantHeader, a.Deadline
}
