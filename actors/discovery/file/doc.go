// Package file reads a list of workers, in YAML or JSON.
//
//   - url: http://10.0.0.1:8000
//   - url: http://10.0.0.2:8000
//     model_id: llama
//     cost: 0.5
//     labels: {zone: a}
//
// Each is described as POST /workers takes it. The list may also stand below the key
// workers. An empty list says that there are no workers; an empty file is an error, for
// that is what a file looks like that is just being written.
package file
