package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

const maxInput = 64 << 20

// ReadInput reads at most 64 MiB from a file, or from standard input for "-". A second read of standard input is an
// error. Errors begin with the text in what, such as "-secret-file", or with the position of an argument that may be a
// secret.
func (c *Call) ReadInput(what, path string) ([]byte, error) {
	if path != "-" {
		data, err := readFile(inDir(c.Dir, path))
		if err != nil {
			return nil, Usagef("%s: %w", c.named(what), withoutPath(err))
		}
		return data, nil
	}
	c.out.Lock()
	reader := c.stdin
	c.stdin = what
	c.out.Unlock()
	if reader != "" {
		return nil, Usagef("%s: standard input is already read by %s", what, reader)
	}
	data, err := readAll(c.Stdin)
	if err != nil {
		return nil, Usagef("%s: standard input: %w", what, err)
	}
	return data, nil
}

// named returns the text in what, or the position of a command-line argument that may be JSON, a card number or a
// secret by mistake.
func (c *Call) named(what string) string {
	at := slices.Index(c.Args, what)
	if at < 0 || len(what) <= 200 && !strings.ContainsAny(what, "{}\"\n") && mask.Text(what) == what {
		return what
	}
	return fmt.Sprintf("argument %d", at+1)
}

// readFile reads a file, a device or a pipe.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // closing a file after reading cannot fail
	return readAll(file)
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(data) > maxInput {
		err = errors.New("more than 64 MiB")
	}
	return data, err
}

// withoutMark returns UTF-8 text without its byte order mark, and an error for UTF-16.
func withoutMark(what string, data []byte) ([]byte, error) {
	if isUTF16(data) {
		return nil, Usagef("%s: in UTF-16, the default of > in Windows PowerShell: save the file as UTF-8", what)
	}
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil
}

// isUTF16 reports whether data is UTF-16 text with a byte order mark, or ASCII text in UTF-16.
func isUTF16(data []byte) bool {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return true
	}
	zeros := [2]int{}
	for i, b := range data {
		if b == 0 {
			zeros[i%2]++
		}
	}
	half := len(data) / 2
	return half > 1 && len(data)%2 == 0 && (zeros[0] == half && zeros[1] == 0 || zeros[1] == half && zeros[0] == 0)
}

func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// withoutPath returns only the reason in an error of package os, because the path may be a secret by mistake.
func withoutPath(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// ReplaceFile writes the file of a flag. Readers see the old or the whole new file. The error has the flag's value.
func (c *Call) ReplaceFile(flag string, data []byte) error {
	err := Replace(c.Text(flag), data)
	if reason, ok := errors.AsType[syscall.Errno](err); ok {
		err = reason // without the name of the temporary file
	}
	if err != nil {
		v := c.Value(flag)
		err = fmt.Errorf("%s: %s cannot be written: %w", v.Place(), mask.Text(v.Texts[0]), err)
	}
	return err
}

// Replace writes a file with access only for its owner. Readers see the old or the whole new file.
func Replace(name string, data []byte) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return errors.New("is a directory")
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails after the rename
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
