package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/canonical"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/capture"
	"github.com/paymentsvc/paymentsvc/cmd/paymentsvc/internal/cli"
)

// The files of -out: textFile for this command, and goFile for a Go program.
const textFile, goFile = "scheme.txt", "scheme.go.txt"

// The kinds of messages in results, and in the clause "seen in".
const requests, notifications, bothKinds = "requests", "notifications", "requests and notifications"

// readOut reads the scheme of an earlier search, if any, in the directory of -out. It rejects a nonempty text without a
// scheme for this key, and code that does not belong to the text. With -replace, it reads no file.
func (d *discovery) readOut() error {
	if !d.Set("out") || d.Bool("replace") {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(d.Text("out"), textFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.Fail("out", "%s cannot be read", textFile)
	}
	d.earlier = strings.TrimSpace(string(text))
	if d.earlier != "" {
		if _, _, err := canonical.ParseSchemeWith(d.earlier, d.options.Secret); err != nil {
			return d.Fail("out", "the %s in DIR has no scheme for this key; -replace overwrites the file", textFile)
		}
	}
	code, err := os.ReadFile(filepath.Join(d.Text("out"), goFile))
	if err == nil && (d.earlier == "" || string(code) != goCode(d.earlier)) {
		return d.Fail("out", "the %s in DIR is not the code of %s; -replace overwrites the file", goFile, textFile)
	}
	return nil
}

// next writes the files of -out, if set, and prints the next steps. With -demo, it does neither. If one text cannot
// contain both schemes, it prints only a note, and with -out returns [cli.No]. An earlier scheme that does not fit
// the messages is an error.
func (d *discovery) next(results []found) error {
	if d.Bool("demo") {
		return nil
	}
	text := textOf(results)
	if d.earlier != "" {
		var agrees bool
		if text, agrees = d.completed(results); !agrees {
			return d.Fail("out", "the scheme in %s does not fit the messages; -replace overwrites the file", textFile)
		}
	}
	if text == "" {
		d.Note("no file written, because one text cannot contain both schemes: keep both schemes")
		if d.Set("out") {
			return cli.No()
		}
		return nil
	}
	if strings.HasPrefix(text, "request ") {
		d.Print("scheme", cli.Fields{"text": text}, "both   "+text)
	}
	if _, kind := cutSeen(text); kind != "" {
		other := map[string]string{requests: "a notification", notifications: "an accepted request"}[kind]
		d.Note("the scheme is seen in %s only: to confirm or complete it, search %s with the same -out", kind, other)
	}
	key, value := "scheme", text
	if d.Set("out") {
		names, err := d.write(text)
		if err != nil {
			return err
		}
		key, value = "scheme_file", filepath.ToSlash(names[0])
	}
	setting, _ := json.Marshal(value)
	d.printNext(fmt.Sprintf(`{"%s": %s}`, key, setting), results[len(results)-1].samples[0])
	return nil
}

// write writes the files of -out, and returns their names.
func (d *discovery) write(text string) (names []string, err error) {
	if err := os.MkdirAll(d.Text("out"), 0o700); err != nil {
		return nil, fmt.Errorf("-out: %w", err)
	}
	for _, file := range []struct{ name, content string }{{textFile, text + "\n"}, {goFile, goCode(text)}} {
		if err := cli.Replace(filepath.Join(d.Text("out"), file.name), []byte(file.content)); err != nil {
			return nil, fmt.Errorf("-out: %w", err)
		}
		names = append(names, filepath.Join(d.Value("out").Texts[0], file.name))
	}
	d.Print("wrote", cli.Fields{"files": names}, "wrote  "+strings.Join(names, ", "))
	return names, nil
}

func (d *discovery) printNext(settings string, s sample) {
	file := s.file
	if file == "" {
		file = "FILE"
	}
	verify := "paymentsvc verify " + file + " -tolerance any"
	if s.signature != "signature" {
		verify += " -signature-header " + capture.ShellWord(s.signature)
	}
	if s.timestamp != "timestamp" {
		verify += " -timestamp-header " + capture.ShellWord(s.timestamp)
	}
	d.Print("next", cli.Fields{"settings": settings, "command": verify},
		"next   add to "+cli.SettingsFile+": "+settings, "       then run: "+verify)
}

// textOf returns the scheme in results, or "" if one text cannot contain the schemes of both kinds. For a scheme of one
// kind, it adds the clause "seen in".
func textOf(results []found) string {
	text := results[0].result.Matches[0].Text
	switch about := results[0].about; {
	case len(results) == 2:
		return pair(text, results[1].result.Matches[0].Text)
	case about != bothKinds:
		text += ", seen in " + about
	}
	return text
}

// completed combines the scheme of an earlier search with results. If the earlier scheme was seen in one kind of
// messages, messages of the other kind confirm the scheme, or [pair] adds their scheme. The text is "" if pair returns
// "". agrees is false if the earlier scheme does not fit a message of a kind in which it was seen.
func (d *discovery) completed(results []found) (text string, agrees bool) {
	scheme, before := cutSeen(d.earlier)
	_, now := cutSeen(textOf(results))
	fits, agrees := true, before != ""
	for _, f := range results {
		for _, s := range f.samples {
			if d.explains(d.earlier, "", s) || d.explains(d.earlier, decompressed, s) {
				continue
			}
			fits = false
			agrees = agrees && (before == notifications) != (s.Message.Kind == paymentsvc.KindNotification)
		}
	}
	switch {
	case fits && before != now:
		return scheme, true
	case fits:
		return d.earlier, true
	case agrees && before == requests:
		return pair(scheme, results[len(results)-1].result.Matches[0].Text), true
	case agrees:
		return pair(results[0].result.Matches[0].Text, scheme), true
	}
	return "", false
}

// pair returns the common text of the schemes of requests and notifications, or "" if their encodings or keys differ.
func pair(request, notification string) string {
	scheme, clauses := cutClauses(request)
	other, otherClauses := cutClauses(notification)
	text := fmt.Sprintf("request %s, notification %s%s", scheme, other, clauses)
	if _, err := canonical.GoCode(text); err != nil || clauses != otherClauses {
		return ""
	}
	return text
}

// cutClauses splits text after a scheme's last bracket. The clauses contain neither brackets nor quoted text.
func cutClauses(text string) (scheme, clauses string) {
	end := strings.LastIndexByte(text, ')') + 1
	return text[:end], text[end:]
}

// cutSeen removes the clause "seen in", and returns the kind of messages in it, or "".
func cutSeen(text string) (scheme, kind string) {
	scheme, clauses := cutClauses(text)
	clause := seenIn.FindStringSubmatch(clauses)
	if clause == nil {
		return text, ""
	}
	return scheme + strings.Replace(clauses, clause[0], "", 1), clause[1]
}

var seenIn = regexp.MustCompile(`,\s*seen\s+in\s+(\w+)`)

// goCode returns a scheme as Go code, or "" for an invalid scheme.
func goCode(text string) string {
	parts, err := canonical.GoCode(text)
	if err != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("import (\n")
	for i, path := range parts.Imports {
		if i > 0 && strings.Contains(path, ".") && !strings.Contains(parts.Imports[i-1], ".") {
			b.WriteString("\n") // the standard library is a separate group
		}
		fmt.Fprintf(&b, "\t%q\n", path)
	}
	b.WriteString(")\n\n")
	if parts.Key != "secret" {
		fmt.Fprintf(&b, "key, err := %s // sign with key, not with secret\n", parts.Key)
	}
	if _, kind := cutSeen(text); kind != "" {
		fmt.Fprintf(&b, "// scheme was seen in %s only.\n", kind)
	}
	fmt.Fprintf(&b, "scheme := paymentsvc.Scheme{\n\tCanonical: %s,\n\tEncoding:  %s,\n}\n",
		parts.Canonical, parts.Encoding)
	return b.String()
}
