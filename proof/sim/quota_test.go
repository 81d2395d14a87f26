package sim

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/botwired/botwired/internal/wire"
	"github.com/botwired/botwired/upstream/quota"
)

// drawQuota draws the quota of each namespace of a world. In most worlds there is none. The
// others have so little that some steps use it up.
func drawQuota(t *rapid.T) quota.Limit { return drawQuotaOf(t, []int{0, 0, 0, 3, 8, 20}) }

func drawQuotaOf(t *rapid.T, sizes []int) quota.Limit {
	writes := rapid.SampledFrom(sizes).Draw(t, "quota")
	if writes == 0 {
		return quota.Limit{}
	}
	return quota.Limit{
		Writes: writes,
		Period: rapid.SampledFrom([]time.Duration{time.Minute, 7 * time.Second, 20 * time.Minute}).Draw(t, "period"),
		MaxAge: rapid.SampledFrom([]time.Duration{15 * time.Minute, 0, 5 * time.Second}).Draw(t, "maxAge"),
	}
}

// meter is the service's count of a namespace's writes in the present window. It counts a
// write when it arrives, even one that is then refused or lost. The service's lock guards it.
type meter struct {
	window         int64
	taken, foreign int // by the daemon and by other hosts
	refused        int
	lives          int // of the daemon within the window
}

// meterOf returns a namespace's count; nil if there is no quota. The caller holds mu.
func (s *service) meterOf(namespace string) *meter {
	if s.quota.Writes == 0 {
		return nil
	}
	m := s.meters[namespace]
	if m == nil {
		m = &meter{}
		s.meters[namespace] = m
	}
	if n := time.Now().UnixNano() / int64(s.quota.Period); n != m.window {
		*m = meter{window: n, lives: 1}
	}
	return m
}

func (s *service) left(m *meter) int { return s.quota.Writes - m.taken - m.foreign }

// admits counts a write, or answers it with 429. Only another host's writes are an excuse for
// one that comes when nothing is left: a daemon then learns of it from each request that is
// under way.
func (s *service) admits(w http.ResponseWriter, namespace string, how condition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.meterOf(namespace)
	switch {
	case m == nil || how.fault == limiting:
		return true
	case s.left(m) > 0:
		m.taken++
		return true
	}
	if m.refused++; m.refused > s.mayLearn(m) {
		s.violations = append(s.violations, fmt.Sprintf(
			"contract 18: a write in %s beyond the quota: the daemon has made %d, other hosts %d, and %d were refused", namespace, m.taken, m.foreign, m.refused-1))
	}
	rest := time.Until(time.Unix(0, (m.window+1)*int64(s.quota.Period)))
	w.Header().Set("Retry-After", strconv.Itoa(int((rest+time.Second-1)/time.Second)))
	wire.Detail(http.StatusTooManyRequests, "the quota is used up").Write(w)
	return false
}

// mayLearn is how many writes of a window the daemon may make in vain.
func (s *service) mayLearn(m *meter) int {
	if m.foreign == 0 && !s.shared {
		return 0
	}
	return m.lives * len(entries)
}

// foreignFits counts another host's write, if the quota has one left.
func (s *service) foreignFits(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.meterOf(namespace)
	if m == nil {
		return true
	}
	if s.left(m) <= 0 {
		return false
	}
	m.foreign++
	return true
}

// violation is the first thing that the service has seen and that may not be.
func (s *service) violation() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.violations) > 0 {
		return errors.New(s.violations[0])
	}
	if s.veil != nil {
		return s.veil.watch.Err()
	}
	return nil
}

// newLife notes that the daemon starts again, and knows no more what it has learned.
func (s *service) newLife() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace := range s.meters {
		s.meterOf(namespace).lives++
	}
}

// counts compares the daemon's count with upstream's: a lower one would go beyond the quota.
func (w *world) counts() string {
	reports := w.node.quotas.Reports()
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	for namespace := range w.up.meters {
		if m, r := w.up.meterOf(namespace), reports[namespace]; r.Used < m.taken {
			return fmt.Sprintf("contract 18: the daemon says %+v of %s, and upstream has counted %d", r, namespace, m.taken)
		}
	}
	return ""
}
