// Package kubernetes finds workers among the pods of a cluster.
//
// A pod is a worker while it is running, ready, has an address and is not being
// deleted: the moment that one of these ends, it is drained. It is known by its
// address and by its UID, so a pod that gets the address of another one is another
// worker.
//
// # How it keeps up
//
// The reflector of client-go lists the pods and then watches them, each source those of
// one label selector, which the API server applies. A watch that breaks is resumed, or
// begins with a new list where the server has forgotten how far it was (410 Gone); pods
// that went meanwhile are not in that list, and so are not missed. A server that
// answers nothing at all any more is given up after WatchFor, and what is wrong is
// tried again after pauses that grow to half a minute. Until then the workers stay what
// they were.
//
// # What it needs
//
// The right to get, list and watch pods, in one namespace or in all:
// cmd/loadstar/packaging/kubernetes/rbac.yaml. Of each pod only what is named in
// type pod is decoded.
package kubernetes
