"""Prints, for each body on standard input, the texts that Python programs sign. A line has form, body and text."""
import hashlib
import json
import sys
from urllib.parse import quote, urlencode

for line in sys.stdin:
    body = line.rstrip("\n")
    data = json.loads(body)
    scalars = {k: v for k, v in data.items() if not isinstance(v, (dict, list))}
    compact = {"separators": (",", ":"), "ensure_ascii": False}
    texts = {
        "json(spaces, escape-unicode, python-numbers)": json.dumps(data),
        "json(sorted, python-numbers)": json.dumps(data, sort_keys=True, **compact),
        'json(indent("  "), python-numbers)': json.dumps(data, indent=2, ensure_ascii=False),
        'fields(as-sent, "=", "&", omit-nested, escape-form, python-constants, python-numbers)': urlencode(scalars),
        'fields(sorted, "=", "&", omit-nested, escape-percent, python-constants, python-numbers)':
            urlencode(sorted(scalars.items()), quote_via=quote, safe=""),
        'fields(sorted, ":", ";", omit-nested, python-constants, python-numbers)':
            ";".join(f"{k}:{v}" for k, v in sorted(scalars.items())),
        "hex(sha256(json(sorted, spaces, escape-unicode, python-numbers)))":
            hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest(),
        'with-number("timestamp", timestamp, json(python-numbers))': json.dumps({**data, "timestamp": 1700000000}, **compact),
    }
    for form, text in texts.items():
        print(form, body, json.dumps(text), sep="\t")
