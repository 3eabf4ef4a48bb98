package payoutcsv

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxText is the maximum length of a reference or destination, in bytes. The interface document does not specify a
// limit (section 8).
const maxText = 255

// spreadsheetValues are the values that spreadsheets and programs write in place of a missing value, in lower case and
// without white space and the marks ¡ and ¿ of Spanish.
var spreadsheetValues = []string{
	"#n/a", "#ref!", "#value!", "#name?", "#div/0!", "#num!", "#null!", // English
	"#spill!", "#calc!", "#field!", "#getting_data", "#error!",
	"#nv", "#bezug!", "#wert!", "#zahl!", "#überlauf!", "#feld!", // German, with #NAME?, #DIV/0! and #NULL!
	"#valeur!", "#nom?", "#nombre!", "#nul!", "#propagation!", "#epars!", // French
	"#н/д", "#ссылка!", "#знач!", "#имя?", "#дел/0!", "#число!", "#пусто!", "#перенос!", // Russian
	"#n/d", "#valor!", "#nombre?", "#núm!", "#nulo!", "#desbordamiento!", // Spanish
	"nan", "null", "none", "undefined", "(null)", "<na>", // programs
}

// errorNumber matches an error of LibreOffice, such as Err:502.
var errorNumber = regexp.MustCompile(`^(err|fehler|erreur|ошибка):[0-9]{3}$`)

// isSpreadsheetValue reports whether the whole text is an error of a spreadsheet or a missing value.
func isSpreadsheetValue(text string) bool {
	key := strings.TrimSpace(norm.NFKC.String(text)) // NFKC converts full-width characters and special spaces
	if strings.Trim(key, "#") == "" {
		return key != "" // a column was too narrow for its number
	}
	if strings.HasPrefix(key, "#") || strings.Contains(key, ":") {
		key = strings.Map(dropDecoration, key)
	}
	key = strings.ToLower(key)
	return slices.Contains(spreadsheetValues, key) || errorNumber.MatchString(key)
}

func dropDecoration(c rune) rune {
	if unicode.IsSpace(c) || c == '¡' || c == '¿' {
		return -1
	}
	return c
}

// checkText rejects text with invisible differences, and text changed by a spreadsheet.
func checkText(text string) string {
	switch {
	case text == "":
		return "empty"
	case len(text) > maxText:
		return fmt.Sprintf("more than %d bytes", maxText)
	case !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError):
		return "neither UTF-8 nor UTF-16"
	case isSpreadsheetValue(text):
		return "an error or a missing value of a spreadsheet, such as #N/A, ### or null"
	case !norm.NFC.IsNormalString(text):
		return "not in Unicode NFC, such as an é that is two characters: convert the file to NFC"
	case strings.ContainsFunc(text, invisible):
		return "a line end, a combining mark or another invisible character"
	case text != strings.TrimSpace(text):
		return "white space around it"
	case text[0] == '=' || text[0] == '\'':
		return "begins with = or an apostrophe, as a spreadsheet writes formulas and text"
	case exponentForm.MatchString(text):
		return exponent
	}
	return ""
}

// invisible reports whether r is invisible to readers. Two references with only an invisible difference would be paid
// twice.
func invisible(r rune) bool {
	const brailleBlank = '\u2800'
	return !unicode.IsPrint(r) || r == brailleBlank ||
		unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Default_Ignorable_Code_Point)
}
