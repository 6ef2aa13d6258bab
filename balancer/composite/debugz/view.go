package debugz

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-composite/grpc-composite/internal/inspect"
)

// What the page says, which is the same as the JSON in more words. The template
// only lays it out.

// tone is how good something is: the name of a symbol and a class.
type tone string

const (
	good    tone = "good"
	waiting tone = "waiting"
	resting tone = "resting" // idle, or held back
	bad     tone = "bad"
)

type processView struct {
	inspect.Process

	Views []channelView
}

func newProcessView(p inspect.Process) *processView {
	v := &processView{Process: p}
	for i := range p.Channels {
		c := &p.Channels[i]
		v.Views = append(v.Views, newChannelView(c, fmt.Sprintf("channel-%d", c.ID), p.Time))
	}
	return v
}

type channelView struct {
	*inspect.Channel

	Key      string // an id in the page
	Tone     tone
	Headline string
	Slots    []slotView
	Clusters []clusterView
	Trails   []trailView
	NoHost   string
	Overflow string
	Facts    []string
}

func newChannelView(c *inspect.Channel, key string, now time.Time) channelView {
	v := channelView{Channel: c, Key: key, Tone: stateTone(c.State)}
	for i := range c.Clusters {
		cluster := newClusterView(&c.Clusters[i], fmt.Sprintf("%s-%d", key, i), now)
		cluster.Counted = c.ID != 0
		v.Clusters = append(v.Clusters, cluster)
	}
	for i, s := range c.Slots {
		v.Slots = append(v.Slots, slotView{
			Slot: s, View: &v.Clusters[s.ClusterIndex], Last: i == len(c.Slots)-1,
			Away: s.GoesToIndex != s.ClusterIndex,
		})
	}
	for i := range c.Trails {
		v.Trails = append(v.Trails, newTrailView(&c.Trails[i], now))
	}
	v.Headline = v.headline()
	v.NoHost = "the attempt fails, and the retry policy decides"
	if c.NoHost == "FAIL_REQUEST" {
		v.NoHost = "the RPC ends with UNAVAILABLE"
	}
	switch c.Overflow {
	case "USE_LAST_CLUSTER":
		v.Overflow = "use the last line again"
	case "ROUND_ROBIN":
		v.Overflow = "start over at the first line"
	default:
		v.Overflow = "the RPC ends"
	}
	if c.Progression == "NEXT_CLUSTER" {
		v.Facts = append(v.Facts, "An attempt starts after the last line that the RPC has used.")
	}
	if !c.SkipClustersWithoutHosts {
		v.Facts = append(v.Facts, "An attempt looks at its own line alone.")
	}
	for _, e := range c.Exhausted {
		switch e.Reason {
		case "no_host":
			v.Facts = append(v.Facts, "Attempts that found no host: "+number(e.Count)+".")
		case "overflow":
			v.Facts = append(v.Facts, "Attempts past the end of the list: "+number(e.Count)+".")
		}
	}
	return v
}

// headline says where an RPC goes first.
func (v *channelView) headline() string {
	first := v.Slots[0]
	if first.GoesToIndex < 0 {
		return "No cluster can be used: RPCs fail, or wait for one."
	}
	to := &v.Clusters[first.GoesToIndex]
	switch {
	case first.Waits && to.Condition == "idle":
		return "Idle: the first RPC makes " + to.Name + " connect."
	case first.Waits:
		return "RPCs wait for " + to.Name + ", which is connecting."
	case first.Away:
		return "RPCs go to " + to.Name + ": " + first.View.Name + " is passed over (" + first.View.short() + ")."
	default:
		return "RPCs go to " + to.Name + "."
	}
}

func stateTone(state string) tone {
	switch state {
	case "READY":
		return good
	case "CONNECTING":
		return waiting
	case "TRANSIENT_FAILURE", "NO_CONNECTION", "SHUTDOWN":
		return bad
	default:
		return resting
	}
}

type slotView struct {
	inspect.Slot

	View *clusterView
	Away bool // it goes elsewhere now, if anywhere
	Last bool
}

type clusterView struct {
	*inspect.Cluster

	Key       string
	Tone      tone
	Since     since
	Endpoints []endpointView
	Counted   bool // of the outermost policy
	Settings  []string
	Inner     *channelView
}

func newClusterView(c *inspect.Cluster, key string, now time.Time) clusterView {
	v := clusterView{Cluster: c, Key: key, Since: since{c.Since, now}}
	switch c.Condition {
	case "has a host":
		v.Tone = good
	case "connecting":
		v.Tone = waiting
	case "idle":
		v.Tone = resting
	default:
		v.Tone = bad
	}
	if c.HeldBack != "" {
		v.Tone = resting
	}
	for _, e := range c.Endpoints {
		if e.Error == c.Cause {
			e.Error = "" // once is enough
		}
		v.Endpoints = append(v.Endpoints, newEndpointView(e, now))
	}
	v.Settings = settings(c)
	if c.Nested != nil {
		inner := newChannelView(c.Nested, key+"-inner", now)
		v.Inner = &inner
	}
	return v
}

// short says in two or three words how the cluster is.
func (v *clusterView) short() string {
	switch {
	case v.HeldBack != "":
		return words(v.HeldBack)
	case v.Reason != "":
		return words(v.Reason)
	default:
		return v.Condition
	}
}

// Status is the condition, with what it is held back by.
func (v clusterView) Status() string {
	switch {
	case v.HeldBack != "":
		return v.Condition + ", held back: " + words(v.HeldBack)
	case v.Reason != "":
		return v.Condition + ": " + words(v.Reason)
	default:
		return v.Condition
	}
}

// settings tells what the config says of the cluster that bears on attempts.
func settings(c *inspect.Cluster) []string {
	list := []string{"connect timeout " + seconds(c.ConnectTimeout)}
	if c.AttemptTimeout > 0 {
		list = append(list, "attempt timeout "+seconds(c.AttemptTimeout))
	}
	if c.MaxRequests > 0 {
		list = append(list, fmt.Sprintf("%d of %d requests in flight", c.InFlight, c.MaxRequests))
	}
	if c.Cooldown != nil {
		list = append(list, "cooldown "+seconds(*c.Cooldown))
	}
	if c.FailbackDelay > 0 {
		list = append(list, "failback delay "+seconds(c.FailbackDelay))
	}
	if c.Lazy {
		list = append(list, "lazy")
	}
	return list
}

type endpointView struct {
	inspect.Endpoint

	Tone  tone
	Label string
	Since since
}

func newEndpointView(e inspect.Endpoint, now time.Time) endpointView {
	v := endpointView{Endpoint: e, Tone: stateTone(e.State), Label: e.State}
	if e.State == "NO_CONNECTION" {
		v.Tone, v.Label = resting, "no connection"
	}
	if e.Health != "" {
		v.Tone, v.Label = bad, "unhealthy"
	}
	if e.Since != nil {
		v.Since = since{*e.Since, now}
	}
	return v
}

type trailView struct {
	*inspect.Trail

	Tone     tone
	Key      string
	Ended    since
	Attempts []attemptView
}

type attemptView struct {
	inspect.Attempt

	Tone tone
}

func newTrailView(t *inspect.Trail, now time.Time) trailView {
	ended := t.Start.Add(time.Duration(t.Duration * float64(time.Second)))
	v := trailView{Trail: t, Tone: codeTone(t.Code), Key: "trail-" + strconv.FormatInt(t.Start.UnixNano(), 36), Ended: since{ended, now}}
	for _, a := range t.Attempts {
		v.Attempts = append(v.Attempts, attemptView{a, codeTone(a.Code)})
	}
	return v
}

func codeTone(code string) tone {
	if code == "OK" {
		return good
	}
	return bad
}

// since is a moment as it is seen from another.
type since struct{ Time, now time.Time }

// Known tells whether there is such a moment.
func (s since) Known() bool { return !s.Time.IsZero() }

// Machine is the moment for machines to read.
func (s since) Machine() string { return s.Time.UTC().Format(time.RFC3339Nano) }

// Duration is how long ago it was, roughly.
func (s since) Duration() string {
	d := s.now.Sub(s.Time)
	switch {
	case d < time.Second:
		return "a moment"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
	}
}

var functions = template.FuncMap{
	"number":  number,
	"seconds": seconds,
	"words":   words,
	"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") },
}

// number writes a number with its thousands apart.
func number(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// seconds writes a number of seconds, to three digits.
func seconds(s float64) string {
	d := time.Duration(math.MaxInt64) // which seconds, as a number, may round to more than
	if ns := s * float64(time.Second); ns < math.MaxInt64 {
		d = time.Duration(ns)
	}
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return strconv.FormatFloat(s, 'g', 3, 64) + " s"
	case d >= time.Millisecond:
		return strconv.FormatFloat(s*1e3, 'g', 3, 64) + " ms"
	default:
		return strconv.FormatFloat(s*1e6, 'f', 0, 64) + " µs"
	}
}

// words makes words of a reason.
func words(reason string) string { return strings.ReplaceAll(reason, "_", " ") }
