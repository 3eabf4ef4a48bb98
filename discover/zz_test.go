package discover
import ("testing";"time";"context";"strings";"net/url";"github.com/paymentsvc/paymentsvc")
func TestZZ(t *testing.T){
	for _, b := range []string{`{"partner_id":17,"project_id":42}`,`{"partner_id":17,"project_id":42,"amount":100.00,"user_data":"order/1 é","payer":{"name":"Ann","email":"a@example.com"}}`}{
	u,_ := url.Parse("https://pay.example.com/v1/get_balance")
	m := paymentsvc.Message{Method: "POST", URL:u, Timestamp: "1700000000", Body: []byte(b), Header: map[string][]string{"X-Request-Id":{"r-1"},"Content-Type":{"application/json"}}}
	samples, _ := newSamples([]Sample{{Message: m, Signature: strings.Repeat("0", 64)}})
	s:=time.Now()
	c := newCatalogue(context.Background(), samples, "secret-of-the-test", nil)
	t.Log(len(c.pieces), time.Since(s), c.err)
	s=time.Now()
	total := int64(0)
	for _, st := range c.stages(0, newKeys("secret-of-the-test"), 1) { n:=0; for _, g := range st.groups {n+=len(g.texts)}; t.Log(st.what, st.min, st.max, st.wanted, st.total/1000, len(st.groups), n); total+=st.total }
	t.Log(total, time.Since(s))
	}
}
