// Package buffer keeps memory that is used again apart from memory that belongs to somebody else.
package buffer

// Own returns made, the result of appending to own, in memory that may be written to and kept: own's, or new
// memory that grew out of it. A function that does not append may return a slice of its caller's, such as a body that
// is still to be sent, and the next use must not be written over that.
func Own(own, made []byte) []byte {
	if len(made) > 0 && cap(own) > 0 && &made[0] == &own[:1][0] {
		return made
	}
	return append(own[:0], made...)
}
