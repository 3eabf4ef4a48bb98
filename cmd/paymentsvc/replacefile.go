package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/mask"
)

// replaceFile writes the file of a flag. Readers see the old or the whole new file. The error has the name as given.
func replaceFile(c *cli.Call, flag string, data []byte) error {
	err := renameInto(c.Text(flag), data)
	if reason, ok := errors.AsType[syscall.Errno](err); ok {
		err = reason // without the name of the temporary file
	}
	if err != nil {
		v := c.Value(flag)
		err = fmt.Errorf("%s: %s cannot be written: %w", v.Place(), mask.Text(v.Texts[0]), err)
	}
	return err
}

// renameInto writes a temporary file and renames it.
func renameInto(name string, data []byte) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return errors.New("is a directory")
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // after the rename it does not exist
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
