//go:build unix

package mock

import (
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paymentsvc/paymentsvc"
	"github.com/paymentsvc/paymentsvc/paymentsvctest"
)

// BenchmarkLoad compares the mock server with a bare handler that verifies a signature, in alternating turns. ratio is
// the requests per processor second, divided by those of the bare handler. The processor time includes the client's.
//
//	go test -run '^$' -bench Load -benchtime 20000x ./cmd/paymentsvc/internal/mock
func BenchmarkLoad(b *testing.B) {
	for _, orders := range []int{2_000, 200_000} {
		for _, expectations := range []string{"", `"user_data":"never"`, `"at_least":1000000`} {
			b.Run(fmt.Sprintf("orders=%d/expect=%s", orders, expectations),
				func(b *testing.B) { benchmarkLoad(b, orders, expectations) })
		}
	}
}

func benchmarkLoad(b *testing.B, orders int, expectation string) {
	m, err := New(Options{
		PartnerID: 1, Projects: []paymentsvctest.Project{{ID: 2, Secret: secret}}, Scheme: scheme(),
		ErrorCode: "error_code", ErrorMessage: "error_message", Origin: "http://127.0.0.1",
	})
	require.NoError(b, err)
	defer m.Close()
	for i := range orders {
		m.ServeHTTP(httptest.NewRecorder(), startRequest(b, "http://127.0.0.1", "before-"+strconv.Itoa(i)))
	}
	expect := func(within string) *http.Request {
		body := `{"that":"started",` + expectation + `,"within":"` + within + `"}`
		return httptest.NewRequest(http.MethodPost, "http://127.0.0.1/_mock/expect", strings.NewReader(body))
	}
	if expectation != "" {
		for range 20 {
			go m.ServeHTTP(httptest.NewRecorder(), expect("5m"))
		}
	}
	mock, bare := httptest.NewServer(m), httptest.NewServer(http.HandlerFunc(bareHandler))
	defer mock.Close()
	defer bare.Close()
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	var spent [2]time.Duration
	const turn = 500
	for n := -turn; n < b.N; n += turn {
		if n == 0 { // the expectations have counted the existing orders
			spent = [2]time.Duration{}
			b.ResetTimer()
		}
		for i, address := range []string{mock.URL, bare.URL} {
			before := processorTime()
			for j := range turn {
				resp, err := http.DefaultClient.Do(startRequest(b, address, fmt.Sprint("order-", n+j)))
				require.NoError(b, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				require.Equal(b, 200, resp.StatusCode)
			}
			spent[i] += processorTime() - before
		}
	}
	b.StopTimer()
	done := float64((b.N + turn - 1) / turn * turn)
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
	b.ReportMetric(done/spent[0].Seconds(), "requests/cpu-s")
	b.ReportMetric(float64(mem.HeapAlloc)/1e6, "MB")
	began := processorTime()
	m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://127.0.0.1/_mock/orders?limit=10", nil))
	b.ReportMetric(float64(processorTime()-began)/1e6, "list-ms")
	m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://127.0.0.1/_mock/reset", nil))
	runtime.GC()
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(mem.HeapAlloc)/1e6, "MB-after-reset")
}

func bareHandler(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	made, _ := scheme().Signature(secret, &paymentsvc.Message{
		Method: r.Method, URL: r.URL, Header: r.Header, Timestamp: r.Header.Get("Timestamp"), Body: body,
	})
	if err != nil || subtle.ConstantTimeCompare([]byte(made), []byte(r.Header.Get("Signature"))) != 1 {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"order_id":"`+first+`","status":1,"status_code":10,"redirect_url":"http://127.0.0.1/pay"}`)
}

// processorTime returns the processor time of the process.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
