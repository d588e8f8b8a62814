// Package dns finds workers by name: at the addresses of a name, or where the SRV
// records of a service point.
//
// A name is asked for again and again. An address that is new in an answer is a worker
// at once. One that is missing leaves, which means it is drained, when three answers in a row
// have been without it: servers that tell only some of many addresses at a time
// would have workers come and go otherwise.
//
// No answer changes nothing, however long it lasts, and a name that is not known is no
// answer: more often than a fleet of none it means that something is wrong with the
// resolver, and workers that are really gone fail their health checks. Resolvers don't
// tell whether a name doesn't exist or has no addresses, so neither says that there
// are no workers. An SRV record whose target is a dot does.
package dns
