// Package docs_test holds the documentation to what it says: the error texts are the SDK's own, the commands run, and
// the links lead somewhere. That the Go code compiles is checked with the README's, in the root's readme_test.go.
package docs_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc/internal/markdown"
)

const root = ".."

// page is a Markdown file.
type page struct {
	file   string // from the root, with slashes
	text   string
	blocks []markdown.Block
}

// at says where a block stands.
func (p page) at(b markdown.Block) string { return fmt.Sprintf("%s:%d", p.file, b.Line) }

// pages reads all Markdown files of the root and of docs.
func pages(t *testing.T) []page {
	t.Helper()
	var list []page
	for _, dir := range []string{root, "."} {
		files, err := filepath.Glob(filepath.Join(dir, "*.md"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			name := file
			if dir == "." {
				name = filepath.Join(root, "docs", file)
			}
			name, err = filepath.Rel(root, name)
			require.NoError(t, err)
			list = append(list, page{filepath.ToSlash(name), string(text), markdown.Blocks(string(text))})
		}
	}
	return list
}

// inDocs says whether the page is one of docs.
func (p page) inDocs() bool { return strings.HasPrefix(p.file, "docs/") }

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	list := pages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range list {
		anchors[p.file] = anchorsOf(p.text)
	}
	checked := 0
	for _, p := range list {
		for _, link := range linksOf(p.text) {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			checked++
			if problem := follow(p.file, link, anchors); problem != "" {
				t.Errorf("%s: %s: %s", p.file, link, problem)
			}
		}
	}
	assert.Greater(t, checked, 20, "links checked")
}

// follow says what is wrong with a relative link, or "".
func follow(from, link string, anchors map[string]map[string]bool) string {
	path, anchor, _ := strings.Cut(link, "#")
	target := from
	if path != "" {
		target = filepath.ToSlash(filepath.Join(filepath.Dir(from), path))
		if strings.HasPrefix(target, "../") {
			return "leads out of the repository"
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
			return "no such file"
		}
	}
	if anchor == "" {
		return ""
	}
	known, ok := anchors[target]
	if !ok {
		return "an anchor in what is no page of the documentation"
	}
	if !known[anchor] {
		return "no such heading"
	}
	return ""
}

func TestALinkThatLeadsNowhereIsFound(t *testing.T) {
	anchors := map[string]map[string]bool{"docs/README.md": {"here": true}}
	for link, want := range map[string]string{
		"#here": "", "README.md#here": "", "../README.md": "", "../canonical": "",
		"#there": "no such heading", "README.md#there": "no such heading",
		"missing.md": "no such file", "../../README.md": "leads out of the repository",
		"../LICENSE#mit": "an anchor in what is no page of the documentation",
	} {
		assert.Equal(t, want, follow("docs/README.md", link, anchors), link)
	}
}

var (
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	inlineLink = regexp.MustCompile(`\]\(<?([^)>\s]+)>?(?:\s+"[^"]*")?\)`)
	heading    = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
)

// linksOf gives the targets of the links and pictures of a page.
func linksOf(text string) []string {
	var links []string
	for _, line := range prose(text) {
		for _, match := range inlineLink.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
			links = append(links, match[1])
		}
	}
	return links
}

// anchorsOf gives the names of a page's headings as a repository's page makes them.
func anchorsOf(text string) map[string]bool {
	anchors := map[string]bool{}
	seen := map[string]int{}
	for _, line := range prose(text) {
		match := heading.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		name := anchor(match[1])
		seen[name]++
		if n := seen[name]; n > 1 {
			name = fmt.Sprintf("%s-%d", name, n-1)
		}
		anchors[name] = true
	}
	return anchors
}

// anchor keeps letters, digits, hyphens and underscores, in lower case, and writes a hyphen for each space.
func anchor(title string) string {
	title = inlineLink.ReplaceAllString(strings.ReplaceAll(title, "[", ""), "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

func TestAnchorsAreThoseOfARepositorysPage(t *testing.T) {
	assert.Equal(t, map[string]bool{
		"what-is-not-known": true, "a-payment-10": true, "errunexpectedresponse": true, "twice": true, "twice-1": true,
		"a-link-to-it": true,
	}, anchorsOf("# What is not known\n## A payment, 10%\n### `ErrUnexpectedResponse`\n## Twice\n## Twice\n"+
		"## [A link](x.md) to it\n```\n# no heading\n```\n\n    # nor this\n"))
}

// prose gives the lines of a page that stand in no fenced or indented block.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	for _, block := range markdown.Blocks(text) {
		for i := range strings.Count(block.Text, "\n") {
			lines[block.Line-1+i] = ""
		}
	}
	return lines
}

// languages are what the blocks of docs may be; each is checked somewhere.
var languages = map[string]string{
	"go":              "compiled by readme_test.go in the root",
	"sh":              "run by TestEveryCommandRuns",
	markdown.Indented: "run by TestEveryCommandRuns",
	"text":            "made by TestEveryTextOnThePagesIsWhatTheSDKSays",
	"mermaid":         "read by TestDiagramsAreWellFormed",
	"sql":             "tables and statements, beside the Go code that uses them",
	"http":            "messages, as they go over the wire",
	"yaml":            "configuration of other programs",
	"":                "output of the command above it",
}

func TestBlocksSayWhatTheyAre(t *testing.T) {
	for _, p := range pages(t) {
		for _, block := range p.blocks {
			assert.Contains(t, languages, block.Lang, p.at(block))
			assert.NotEmpty(t, strings.TrimSpace(block.Text), p.at(block))
		}
	}
}

func TestTheTestsOnThePagesCanFail(t *testing.T) {
	servers, forgeries := 0, 0
	for _, p := range pages(t) {
		for _, block := range p.blocks {
			if strings.Contains(block.Text, "paymentsvctest.Config{") {
				servers++
				assert.Contains(t, block.Text, "paymentsvctest.NewOrder", "%s: a second start would be refused unseen", p.at(block))
			}
			if strings.Contains(block.Text, "AssertForgeriesRefused(t)") {
				forgeries++
				assert.Contains(t, block.Text, ".Hits() == 0", "%s: it passes where nothing is forged", p.at(block))
			}
		}
	}
	assert.NotZero(t, servers)
	assert.NotZero(t, forgeries)
}

func TestPagesFitTheirWidthAndNameNoMachine(t *testing.T) {
	place := regexp.MustCompile(`/(home|root|work|tmp)/`)
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			where := fmt.Sprintf("%s:%d", p.file, i+1)
			assert.NotRegexp(t, place, line, where)
			if p.file != "docs/performance.md" && !strings.HasPrefix(line, "|") {
				assert.LessOrEqual(t, len([]rune(line)), 120, where)
			}
		}
	}
}

func TestTheIndexNamesEveryPage(t *testing.T) {
	index, err := os.ReadFile("README.md")
	require.NoError(t, err)
	links := linksOf(string(index))
	for _, p := range pages(t) {
		if name := filepath.Base(p.file); p.inDocs() && name != "README.md" {
			assert.Contains(t, links, name)
		}
	}
}

func TestPicturesAreWellFormed(t *testing.T) {
	files, err := filepath.Glob("*.svg")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		picture, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.NoError(t, wellFormed(string(picture)), file)
	}
}

// wellFormed reads XML whose only element is an svg that says how large it is.
func wellFormed(picture string) error {
	decoder := xml.NewDecoder(strings.NewReader(picture))
	depth, elements := 0, 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if depth++; depth > 1 {
				continue
			}
			elements++
			if token.Name.Space != "http://www.w3.org/2000/svg" || token.Name.Local != "svg" {
				return errors.New("not an svg")
			}
			if !strings.Contains(picture, "viewBox=") {
				return errors.New("no viewBox")
			}
		case xml.EndElement:
			depth--
		}
	}
	if elements != 1 {
		return fmt.Errorf("%d elements at the top", elements)
	}
	return nil
}

func TestAPictureThatIsNotWellFormedIsFound(t *testing.T) {
	const start = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">`
	require.NoError(t, wellFormed(start+`<g/></svg>`))
	for _, picture := range []string{"", start, start + "<g></svg>", start + "&</svg>", "<svg/>", `<svg xmlns="http://www.w3.org/2000/svg"/>`} {
		assert.Error(t, wellFormed(picture), picture)
	}
}
