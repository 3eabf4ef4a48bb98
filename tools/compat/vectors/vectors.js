// Prints, for each body on standard input, the texts that Node programs sign. A line has form, body and text.
const lines = require('fs').readFileSync(0, 'utf8').split('\n').filter(Boolean);

const sorted = (value) => {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
};

for (const body of lines) {
  const data = JSON.parse(body);
  const scalars = Object.entries(data).filter(([, value]) => value === null || typeof value !== 'object');
  const byName = [...scalars].sort(([a], [b]) => (a < b ? -1 : 1));
  const texts = {
    'json(short-numbers)': JSON.stringify(data),
    'json(sorted, short-numbers)': JSON.stringify(sorted(data)),
    'json(indent("  "), short-numbers)': JSON.stringify(data, null, 2),
    'fields(sorted, "=", "&", omit-nested, escape-js, short-numbers)':
      byName.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join('&'),
    'fields(as-sent, "|", omit-nested, short-numbers)': scalars.map(([, value]) => String(value)).join('|'),
    'fields(sorted, "=", "&", omit-nested, omit-empty, short-numbers)':
      byName.filter(([, value]) => value !== null && value !== '').map(([name, value]) => `${name}=${value}`).join('&'),
    'escaped(js, json(short-numbers))': encodeURIComponent(JSON.stringify(data)),
  };
  for (const [form, text] of Object.entries(texts)) console.log([form, body, JSON.stringify(text)].join('\t'));
}
