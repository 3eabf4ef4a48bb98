// Package buffer separates reusable memory from the memory of other packages.
package buffer

// Own returns made in reusable memory. made is the result of a function that appends to own. If the function returned
// other memory, such as a request body, the next append would overwrite that memory. So Own then copies made into own,
// or into new memory if own is too short.
func Own(own, made []byte) []byte {
	if len(made) > 0 && cap(own) > 0 && &made[0] == &own[:1][0] {
		return made
	}
	return append(own[:0], made...)
}
