package inspect

import "time"

// What is shown is bounded, whatever a config, a resolver or a server says.
const (
	MaxChannels  = 50
	MaxEndpoints = 50  // of a cluster
	MaxAddresses = 4   // of an endpoint
	MaxTrails    = 24  // of a channel
	MaxAttempts  = 8   // of a trail
	MaxSkips     = 8   // of an attempt
	MaxText      = 256 // bytes of any text
)

// Process is what there is to see in a process. Its JSON and that of the types
// below are explained in package debugz.
type Process struct {
	Time            time.Time `json:"time"`
	Since           time.Time `json:"countedSince"`
	Channels        []Channel `json:"channels"`
	ChannelsOmitted int       `json:"channelsOmitted"`
}

// Channel is a channel, or a composite policy inside one of its clusters.
type Channel struct {
	ID      int64     `json:"id"` // 0 for a policy inside another
	Target  string    `json:"target"`
	State   string    `json:"state"`
	Created time.Time `json:"created"`

	Progression              string `json:"progression"`
	Overflow                 string `json:"overflow"`
	SkipClustersWithoutHosts bool   `json:"skipClustersWithoutHosts"`
	NoHost                   string `json:"noHost"`

	Slots     []Slot    `json:"slots"`
	Clusters  []Cluster `json:"clusters"`
	Exhausted []Count   `json:"exhausted"`
	Trails    []Trail   `json:"trails"`
}

// Slot is a line of the attempt table.
type Slot struct {
	Attempt int    `json:"attempt"`
	Cluster string `json:"cluster"`
	GoesTo  string `json:"goesTo"`
	Waits   bool   `json:"waits"`
	// The index in Channel.Clusters, and of GoesTo -1 if there is none.
	ClusterIndex int `json:"-"`
	GoesToIndex  int `json:"-"`
}

// Cluster is a cluster as it is now.
type Cluster struct {
	Name          string    `json:"name"`
	Target        string    `json:"target"`
	Policy        string    `json:"policy"`
	NextPolicy    string    `json:"nextPolicy,omitempty"`
	Condition     string    `json:"condition"`
	Since         time.Time `json:"since"`
	Reason        string    `json:"reason,omitempty"`
	Cause         string    `json:"cause,omitempty"`
	ResolverError string    `json:"resolverError,omitempty"`
	HeldBack      string    `json:"heldBack,omitempty"`
	Lazy          bool      `json:"lazy,omitempty"`
	InFlight      int64     `json:"inFlight,omitempty"`
	MaxRequests   int64     `json:"maxRequests,omitempty"`

	ConnectTimeout float64  `json:"connectTimeoutSeconds"`
	AttemptTimeout float64  `json:"attemptTimeoutSeconds,omitempty"`
	FailbackDelay  float64  `json:"failbackDelaySeconds,omitempty"`
	Cooldown       *float64 `json:"cooldownSeconds,omitempty"`

	Endpoints        []Endpoint `json:"endpoints"`
	EndpointsOmitted int        `json:"endpointsOmitted"`
	Picks            []Pick     `json:"picks"`
	Skips            []Count    `json:"skips"`
	Nested           *Channel   `json:"nested,omitempty"`
}

// Endpoint is an endpoint of a cluster, with the best of its connections.
type Endpoint struct {
	Addresses []string   `json:"addresses"`
	Omitted   int        `json:"addressesOmitted,omitempty"`
	State     string     `json:"state"`
	Since     *time.Time `json:"since,omitempty"`
	Health    string     `json:"health,omitempty"`
	Error     string     `json:"error,omitempty"`
}

// Pick is how many picks of attempts with a number a cluster has got. The last
// number counts all that are higher, too.
type Pick struct {
	Attempt int    `json:"attempt"`
	Count   uint64 `json:"count"`
}

// Count is how often something happened for a reason.
type Count struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// Trail is what an RPC went through.
type Trail struct {
	Method   string    `json:"method"`
	Start    time.Time `json:"start"`
	Duration float64   `json:"durationSeconds"`
	Code     string    `json:"code"`
	Message  string    `json:"message,omitempty"`
	Attempts []Attempt `json:"attempts"`
	Omitted  int       `json:"attemptsOmitted,omitempty"`
}

// Attempt is an attempt of a trail.
type Attempt struct {
	Number      int       `json:"number"`
	Cluster     string    `json:"cluster"`
	Peer        string    `json:"peer,omitempty"`
	Skipped     []Skip    `json:"skipped,omitempty"`
	Omitted     int       `json:"skippedOmitted,omitempty"`
	Transparent bool      `json:"transparent,omitempty"`
	Committed   bool      `json:"committed,omitempty"`
	Start       time.Time `json:"start"`
	Duration    float64   `json:"durationSeconds"`
	Code        string    `json:"code"`
	Message     string    `json:"message,omitempty"`
}

// Skip is a cluster that an attempt passed over.
type Skip struct {
	Cluster string `json:"cluster"`
	Reason  string `json:"reason"`
	Error   string `json:"error,omitempty"`
}
