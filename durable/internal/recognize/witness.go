package recognize

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Witness has the methods of durable.Witness.
type Witness interface {
	Load(ctx context.Context) (mark int64, err error)
	Save(ctx context.Context, mark int64) error
}

// File returns a witness in a file on a local disk.
//
// Each process changes only its own record in the file, so processes need no lock. Load returns the highest mark of all
// records. A record has 64 bytes, so it never spans two sectors of the disk.
func File(path string) Witness { return &file{path: path, sync: true, at: -1} }

// beside returns the default witness of a SQLite database. The file survives the death of a process, but is not synced.
// After a power failure it may lack the marks of the last seconds. Then a restore to these seconds is not noticed.
func beside(database string) Witness { return &file{path: database + "-durable", at: -1} }

type file struct {
	path string
	sync bool

	mu   sync.Mutex
	mark int64  // the mark in the record
	id   string // identifies the record
	at   int64  // offset of the record, or -1
}

// Load implements [Witness].
func (f *file) Load(context.Context) (highest int64, err error) {
	content, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(f.path)); err != nil { // a mistake in the path, not a new witness
			return 0, fmt.Errorf("create the directory of the file first: %w", err)
		}
		return 0, nil
	}
	for line := range strings.Lines(string(content)) {
		first, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		mark, err := strconv.ParseInt(first, 10, 64)
		if err != nil || mark < 0 || !strings.HasSuffix(line, "\n") {
			return 0, fmt.Errorf("%s: a line does not begin with a mark; if you remove the file, payouts are held", f.path)
		}
		highest = max(highest, mark)
	}
	return highest, err
}

// Save implements [Witness].
func (f *file) Save(_ context.Context, mark int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mark <= f.mark {
		return nil
	}
	err := f.change(mark)
	if errors.Is(err, fs.ErrNotExist) {
		err = f.add(mark)
	}
	if err == nil {
		f.mark = mark
	}
	return err
}

// record returns 64 bytes with a mark, a space, the id, and a new line.
func (f *file) record(mark int64) []byte { return fmt.Appendf(nil, "%020d %-42s\n", mark, f.id) }

// change writes the record of this process. It returns fs.ErrNotExist if the file does not contain the record.
func (f *file) change(mark int64) error {
	if f.at < 0 {
		return fs.ErrNotExist
	}
	opened, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	stored := make([]byte, len(f.record(0)))
	if _, err := opened.ReadAt(stored, f.at); err != nil || !bytes.Contains(stored, []byte(f.id)) {
		return errors.Join(fs.ErrNotExist, opened.Close())
	}
	_, err = opened.WriteAt(f.record(mark), f.at)
	return f.finish(opened, err)
}

// add appends a new record, and finds its offset by the id, because other processes may append at the same time.
func (f *file) add(mark int64) error {
	f.id, f.at = rand.Text(), -1
	opened, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = opened.Write(f.record(mark))
	if err := f.finish(opened, err); err != nil {
		return err
	}
	content, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	at := bytes.Index(content, f.record(mark))
	if at < 0 {
		return fmt.Errorf("%s: the appended record is missing", f.path)
	}
	f.at = int64(at)
	return f.syncDirectory()
}

func (f *file) finish(opened *os.File, err error) error {
	if f.sync && err == nil {
		err = opened.Sync()
	}
	return errors.Join(err, opened.Close())
}

// syncDirectory makes a new file durable if f.sync is set. Windows cannot sync a directory, and does not need it.
func (f *file) syncDirectory() error {
	if !f.sync {
		return nil
	}
	directory, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	_ = directory.Sync()
	return directory.Close()
}
