package prefixtree_test

import (
	"fmt"

	"loadstar/prefixtree"
)

func ExampleTree() {
	tree := prefixtree.New(64 << 20)
	system := []uint64{0xa1, 0xa2, 0xa3} // chained hashes of three blocks
	chat := []uint64{0xa1, 0xa2, 0xa3, 0xb4, 0xb5}

	tree.Insert(chat, 7)
	tree.Insert(system, 8)

	for _, hit := range tree.Match(append(chat, 0xc6), nil) {
		fmt.Printf("worker %d knows %d blocks\n", hit.Worker, hit.Blocks)
	}
	// Unordered output:
	// worker 7 knows 5 blocks
	// worker 8 knows 3 blocks
}
