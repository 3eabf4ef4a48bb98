package buffer

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOwnGivesTheTextInMemoryThatIsNobodyElses(t *testing.T) {
	foreign := []byte("foreign")
	own := make([]byte, 0, 8)
	for name, test := range map[string]struct {
		own, made []byte
		want      string
	}{
		"appended in place":    {own, append(own, "ab"...), "ab"},
		"grown":                {own, append(own, "longer than eight"...), "longer than eight"},
		"another's":            {own, foreign, "foreign"},
		"a part of another's":  {own, foreign[3:], "eign"},
		"another's, no memory": {nil, foreign, "foreign"},
		"nothing":              {own, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kept := Own(test.own, test.made)
			assert.Equal(t, test.want, string(kept))
			for i := range kept {
				kept[i] = 'x'
			}
			_ = append(kept, "xxx"...)
			assert.Equal(t, "foreign", string(foreign))
		})
	}
}
