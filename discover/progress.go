package discover

import "time"

// reportProgress calls Options.Progress until stop is called, and once more then.
func (f *finder) reportProgress(start time.Time) (stop func()) {
	if f.options.Progress == nil {
		return func() {}
	}
	total := int64(0)
	for _, stages := range f.stages {
		for _, st := range stages {
			total += st.total
		}
	}
	f.progress = make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		const often = 100 * time.Millisecond
		ticker := time.NewTicker(often)
		defer ticker.Stop()
		what := ""
		report := func() {
			tried := f.search.tried.Load()
			f.options.Progress(Progress{Tried: tried, Total: max(total, tried), Elapsed: time.Since(start), What: what})
		}
		for {
			select {
			case <-ticker.C:
				report()
			case next, open := <-f.progress:
				if !open {
					report()
					return
				}
				what = next
			}
		}
	}()
	return func() {
		close(f.progress)
		<-ended
	}
}
