// Package trace tells a collector of OpenTelemetry how requests went: one span of a
// request, below it one for a wait in the queue and one for each attempt at a worker.
//
// # Sampling
//
// A request with a valid traceparent is traced if its sender says so, and otherwise
// by a ratio of the trace ids, so that all who use the same ratio choose the same
// traces. What is not sampled costs a look at the request's headers and nothing else.
//
// # Bounds
//
// Spans wait in a queue of fixed size for one goroutine that sends them. What finds
// the queue full, or no collector that takes it, is dropped and counted. Nobody who
// ends a span ever waits.
//
// # Why an exporter of its own
//
// The SDK's exporter for OTLP over HTTP brings protobuf, gRPC and a gateway with it:
// 13 MB of the binary. The standard's JSON form needs none of them.
package trace
