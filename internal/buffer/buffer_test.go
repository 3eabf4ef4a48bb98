package buffer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOwnCopiesForeignMemory(t *testing.T) {
	for name, test := range map[string]struct {
		capacity int
		write    func(own, foreign []byte) []byte
		want     string
	}{
		"appended in place": {8, func(own, _ []byte) []byte { return append(own, "ab"...) }, "ab"},
		"grown": {
			8, func(own, _ []byte) []byte { return append(own, "longer than eight"...) }, "longer than eight",
		},
		"another's":            {8, func(_, foreign []byte) []byte { return foreign }, "foreign"},
		"a part of another's":  {8, func(_, foreign []byte) []byte { return foreign[3:] }, "eign"},
		"another's, no memory": {0, func(_, foreign []byte) []byte { return foreign }, "foreign"},
		"nothing":              {8, func(_, _ []byte) []byte { return nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			own, foreign := make([]byte, 0, test.capacity), []byte("foreign")
			kept := Own(own, test.write(own, foreign))
			assert.Equal(t, test.want, string(kept))
			for i := range kept {
				kept[i] = 'x'
			}
			_ = append(kept[:0], "xxxxxxx"...)
			assert.Equal(t, "foreign", string(foreign))
		})
	}
}
