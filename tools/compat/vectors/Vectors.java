import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Prints, for each flat body on standard input, the texts that Java programs sign. A line has form, body and text. */
public class Vectors {
    private static final Pattern FIELD = Pattern.compile("\"(\\w+)\":(?:\"([^\"]*)\"|([^,}]+))");

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String body = in.readLine(); body != null; body = in.readLine()) {
            if (body.indexOf('{', 1) > 0) {
                continue; // Java has no JSON library, and the pattern does not read nested objects
            }
            TreeMap<String, String> fields = new TreeMap<>();
            for (Matcher m = FIELD.matcher(body); m.find();) {
                fields.put(m.group(1), m.group(2) != null ? m.group(2) : value(m.group(3)));
            }
            print(out, "fields(sorted, \"=\", \"&\", java-numbers)", body, fields.entrySet().stream()
                .map(f -> f.getKey() + "=" + f.getValue()).collect(Collectors.joining("&")));
            print(out, "fields(sorted, \"=\", \"&\", escape-java, java-numbers)", body, fields.entrySet().stream()
                .map(f -> URLEncoder.encode(f.getKey(), StandardCharsets.UTF_8) + "=" + URLEncoder.encode(f.getValue(), StandardCharsets.UTF_8))
                .collect(Collectors.joining("&")));
            print(out, "fields(sorted, \"|\", java-numbers)", body, String.join("|", fields.values()));
        }
    }

    private static String value(String json) {
        if (json.equals("true") || json.equals("false") || json.equals("null")) {
            return json;
        }
        return json.contains(".") ? String.valueOf(Double.parseDouble(json)) : String.valueOf(Long.parseLong(json));
    }

    private static void print(PrintStream out, String form, String body, String text) {
        out.println(form + "\t" + body + "\t\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"");
    }
}
