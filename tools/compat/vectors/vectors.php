<?php
// Prints, for each body on standard input, the texts that PHP programs sign. A line has form, body and text.
function sorted($value) {
    if (!is_array($value)) {
        return $value;
    }
    if (!array_is_list($value)) {
        ksort($value, SORT_STRING);
    }
    return array_map('sorted', $value);
}
while (($body = fgets(STDIN)) !== false) {
    $body = rtrim($body, "\n");
    if (str_contains($body, '"tiny"')) {
        continue; // PHP writes floats below 0.0001 and from 1e15 on in a special form, which no amount needs
    }
    $data = json_decode($body, true);
    $flags = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE;
    $scalars = array_filter(sorted($data), 'is_scalar');
    $texts = [
        'json(escape-slash, escape-unicode, short-numbers)' => json_encode($data),
        'json(sorted, escape-slash, escape-unicode, short-numbers)' => json_encode(sorted($data)),
        'json(short-numbers)' => json_encode($data, $flags),
        'json(indent("    "), short-numbers)' => json_encode($data, $flags | JSON_PRETTY_PRINT),
        'fields(as-sent, "=", "&", flat("[]"), escape-php, digit-constants, omit-null, short-numbers)' => http_build_query($data),
        'fields(sorted, "=", "&", flat("[]"), escape-percent, digit-constants, omit-null, short-numbers)' =>
            http_build_query(sorted($data), '', '&', PHP_QUERY_RFC3986),
        'fields(sorted, "|", omit-nested, omit-null, php-constants, short-numbers)' => implode('|', $scalars),
        'hex(md5(json(escape-slash, escape-unicode, short-numbers)))' => md5(json_encode($data)),
        'with("timestamp", timestamp, json(sorted, short-numbers))' =>
            json_encode(sorted($data + ['timestamp' => '1700000000']), $flags),
    ];
    foreach ($texts as $form => $text) {
        echo $form, "\t", $body, "\t", json_encode($text, JSON_UNESCAPED_SLASHES), "\n";
    }
}
