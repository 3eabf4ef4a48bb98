// Command benchmarks compares the SDK with other SDKs and with the same work by hand, on bodies of the same size. It
// prints the tables as Markdown, in three minutes on a quiet machine:
//
//	go -C tools/bench run ./benchmarks >tools/bench/performance.md
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 201, "the minimum number of turns of each candidate")
	flag.Parse()
	text, err := compare(context.Background(), max(1, *rounds))
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
	const head = "# Performance tables\n\n[Performance](../../docs/performance.md) explains columns and candidates.\n\n"
	fmt.Println(head + strings.TrimSpace(text))
}

// sizes are the bytes of a usual notification and of the largest notification that Handler accepts by default.
var sizes = []int{220, 64 << 10}

func sizeName(bytes int) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

func compare(ctx context.Context, rounds int) (string, error) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the order of turns is not a secret
	text := machine() + fmt.Sprintf("\nEach candidate has at least %d turns, and up to %d until the range of "+
		"the SDK is within %.0f %%.\n\n", rounds, max(rounds, maxRounds), 100*narrow)
	add := func(title, reference string, candidates []candidate, callers int) error {
		fmt.Fprintln(os.Stderr, title)
		rows, err := measure(candidates, reference, rounds, callers, random)
		text += markdown(title, reference, rows)
		return err
	}
	for _, work := range []string{"Verify", "Verify and parse"} {
		for _, size := range sizes {
			if err := add(work+", "+sizeName(size), pooledHMACName, webhooks(size, untouched)[work], 1); err != nil {
				return "", err
			}
		}
	}
	for i, title := range []string{"A call, one caller", "A call, 64 callers"} {
		candidates, end := calling(ctx)
		err := add(title, byHand, candidates, []int{1, 64}[i])
		end()
		if err != nil {
			return "", err
		}
	}
	connections, err := countConnections(ctx, min(rounds, 21), 64, 20)
	return text + connections, err
}

var peerModule = regexp.MustCompile(`/(stripe-go|standard-webhooks|svix-webhooks|paddle-go-sdk|resty)(/|$)`)

// machine describes the machine and lists the versions of the peers.
func machine() string {
	read := func(file, pattern string) string {
		content, _ := os.ReadFile(file) //nolint:gosec // a constant path, missing on other systems
		return string(regexp.MustCompile(pattern).Find(content))
	}
	text := fmt.Sprintf("Run on %s with %s, on %d processors (%s) under %s/%s. The load average at the start was %s "+
		"(0 on an idle machine).\n\nPeers: ", time.Now().UTC().Format("2 January 2006"), runtime.Version(),
		runtime.NumCPU(),
		strings.TrimPrefix(read("/proc/cpuinfo", `model name\s*: .*`), "model name\t: "), runtime.GOOS, runtime.GOARCH,
		read("/proc/loadavg", `^\S+`))
	info, _ := debug.ReadBuildInfo()
	var peers []string
	for _, m := range info.Deps {
		if peerModule.MatchString(m.Path) {
			peers = append(peers, m.Path+" "+m.Version)
		}
	}
	return text + strings.Join(peers, ", ") + ".\n"
}

// must panics on errors that only a mistake in this program can cause.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
