package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// SettingsFile is the name of the settings file in the working directory. Commands do not search other directories.
const SettingsFile = "paymentsvc.json"

// setting is a value of the settings file.
type setting struct {
	raw   json.RawMessage
	where string // file, line and column
}

// settingsFile is a parsed settings file.
type settingsFile struct {
	dir    string
	values map[string]setting // by Flag.Key
}

// readSettings reads the settings file config, or [SettingsFile] if config is "". A missing [SettingsFile] is then
// not an error. An empty file such as /dev/null has no settings.
func readSettings(env *Env, config string, known []Flag) (settingsFile, error) {
	name := config
	if name == "" {
		name = SettingsFile
	}
	path := inDir(env.Dir, name)
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && config == "" {
		return settingsFile{}, nil
	}
	if err != nil {
		return settingsFile{}, Usagef("%s: %w", name, withoutPath(err))
	}
	data, err = withoutMark(name, data)
	if err != nil {
		return settingsFile{}, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return settingsFile{dir: filepath.Dir(path)}, nil
	}
	r := &settingsReader{name: name, data: data, known: known, values: map[string]setting{}}
	r.dec = json.NewDecoder(bytes.NewReader(r.data))
	if err := r.object(""); err != nil {
		return settingsFile{}, err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return settingsFile{}, r.fail(r.dec.InputOffset(), "want the end of the file after the JSON object")
	}
	return settingsFile{dir: filepath.Dir(path), values: r.values}, nil
}

type settingsReader struct {
	name   string
	data   []byte
	dec    *json.Decoder
	known  []Flag
	values map[string]setting
}

// fail returns an error with the place of the next token after offset.
func (r *settingsReader) fail(offset int64, format string, args ...any) error {
	return Usagef("%s: %s", r.place(offset), fmt.Sprintf(format, args...))
}

func (r *settingsReader) place(offset int64) string {
	for offset < int64(len(r.data)) && strings.IndexByte(" \t\r\n,:", r.data[offset]) >= 0 {
		offset++
	}
	before := r.data[:min(offset, int64(len(r.data)))]
	column := len([]rune(string(before[bytes.LastIndexByte(before, '\n')+1:]))) + 1
	return fmt.Sprintf("%s:%d:%d", r.name, bytes.Count(before, []byte("\n"))+1, column)
}

// object parses the members of the file, or of one command with the prefix "command.".
func (r *settingsReader) object(prefix string) error {
	start := r.dec.InputOffset()
	if token, err := r.dec.Token(); err != nil {
		return r.syntax(err)
	} else if token != json.Delim('{') {
		return r.fail(start, "want a JSON object")
	}
	seen := map[string]bool{}
	for r.dec.More() {
		start := r.dec.InputOffset()
		token, err := r.dec.Token()
		if err != nil {
			return r.syntax(err)
		}
		name, _ := token.(string)
		if seen[name] {
			return r.fail(start, "duplicate key %q", name)
		}
		seen[name] = true
		if err := r.member(prefix, name, start); err != nil {
			return err
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return r.syntax(err)
	}
	return nil
}

func (r *settingsReader) member(prefix, name string, start int64) error {
	var names []string
	for _, f := range r.known {
		rest, below := strings.CutPrefix(f.Key(), prefix)
		if !below {
			continue
		}
		if rest == name {
			at := r.dec.InputOffset()
			var raw json.RawMessage
			if err := r.dec.Decode(&raw); err != nil {
				return r.syntax(err)
			}
			r.values[prefix+name] = setting{raw, r.place(at)}
			return nil
		}
		group, _, grouped := strings.Cut(rest, ".")
		if grouped && group == name {
			return r.object(name + ".")
		}
		names = append(names, group)
	}
	return r.fail(start, "unknown key %q%s", prefix+name, Nearest(name, names))
}

func (r *settingsReader) syntax(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && syntax.Offset > 0 {
		return r.fail(syntax.Offset-1, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return r.fail(int64(len(r.data)), "the JSON is incomplete")
}

// sample returns an example for settings that users often write as a number.
func sample(name string) string {
	switch name {
	case "balance":
		return `, such as "100.00"`
	case "tolerance", "timeout", "forward-timeout", "grace":
		return `, such as "5m"`
	}
	return ""
}

// texts returns the value as the texts of a flag.
func (s setting) texts(f Flag) (list []string, err error) {
	var text string
	var number int64
	var yes bool
	want := "a string" + sample(f.Name)
	switch f.Kind {
	case Int:
		want, err = "a whole number", json.Unmarshal(s.raw, &number)
		list = []string{strconv.FormatInt(number, 10)}
	case Bool:
		want, err = "true or false", json.Unmarshal(s.raw, &yes)
		list = []string{strconv.FormatBool(yes)}
	case List:
		want, err = "an array of strings", json.Unmarshal(s.raw, &list)
	default:
		err = json.Unmarshal(s.raw, &text)
		list = []string{text}
	}
	if err != nil || string(s.raw) == "null" {
		return nil, Usagef("%s: %s: want %s", s.where, f.Key(), want)
	}
	return list, nil
}
