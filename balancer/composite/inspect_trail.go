package composite

import (
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/status"

	"github.com/grpc-composite/grpc-composite/internal/attempt"
	"github.com/grpc-composite/grpc-composite/internal/inspect"
)

// keptTrail is where the trail of an RPC is kept.
type keptTrail struct {
	trails *inspect.Trails
	trail  *inspect.Trail
}

// keep keeps the trail of an RPC that has ended with err, or of which a stream has,
// if it needed more than one attempt or failed. It is with the policy that an attempt
// was picked by last: the channel may have got another one.
func (k *keptTrail) keep(l *attempt.Ledger, err error) {
	if err == io.EOF { //nolint:errorlint // gRPC-Go wraps it where an RPC has failed
		err = nil
	}
	if err == nil && !l.Retried() {
		return
	}
	records, dropped := l.Records(err)
	if len(records) == 0 || err == nil && len(records) == 1 {
		return
	}
	for _, r := range slices.Backward(records) {
		p, ok := r.Route.Picker.(*picker)
		if !ok || p.watch == nil {
			continue // it is still being picked for, or was before anybody watched
		}
		if k.trails != &p.watch.trails {
			*k = keptTrail{trails: &p.watch.trails}
		}
		k.trail = k.trails.Put(k.trail, shownTrail(l.Method(), trailOf(records), dropped, err))
		return
	}
}

// shownTrail is a trail as it is kept to be shown: nothing in it refers to the
// channel, or is long.
func shownTrail(method string, t Trail, dropped int, err error) inspect.Trail {
	st := status.Convert(err)
	start, duration := t.Attempts[0].Start, time.Duration(0)
	for _, a := range t.Attempts { // which may run at once
		duration = max(duration, a.Start.Add(a.Duration).Sub(start))
	}
	shown := inspect.Trail{
		Method:   inspect.Text(method),
		Start:    start,
		Duration: duration.Seconds(),
		Code:     codeName(st.Code()),
		Message:  inspect.Text(st.Message()),
		Omitted:  dropped,
	}
	for i, a := range t.Attempts {
		if i >= inspect.MaxAttempts/2 && i < len(t.Attempts)-inspect.MaxAttempts/2 {
			shown.Omitted++ // of those in the middle
			continue
		}
		shown.Attempts = append(shown.Attempts, shownAttempt(&a))
	}
	return shown
}

func shownAttempt(a *Attempt) inspect.Attempt {
	shown := inspect.Attempt{
		Number: a.Number, Cluster: inspect.Text(a.Cluster), Peer: inspect.Text(a.Peer),
		Transparent: a.Transparent, Committed: a.Committed,
		Start: a.Start, Duration: a.Duration.Seconds(),
		Code: codeName(a.Code), Message: inspect.Text(a.Message),
	}
	for i, s := range a.Skipped {
		if i == inspect.MaxSkips {
			shown.Omitted = len(a.Skipped) - i
			break
		}
		shown.Skipped = append(shown.Skipped, inspect.Skip{Cluster: inspect.Text(s.Cluster), Reason: s.Reason, Error: inspect.Error(s.Err)})
	}
	return shown
}
