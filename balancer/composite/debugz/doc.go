// Package debugz serves a page on which to see what the channels of the process
// with the policy "composite" do: which cluster each attempt goes to and why, the
// clusters' endpoints, what was picked and passed over, and the latest RPCs that
// needed more than one attempt or failed.
//
//	http.Handle("/debug/composite", debugz.Handler())
//
// The page is one document without outside assets. It follows what happens while it
// is open, and works without script, colour or mouse.
//
// # For programs
//
// With ?format=json the handler answers with an object of these fields. Fields are
// added over time, and never renamed. Times are RFC 3339, names of codes, states and
// config values those of gRPC and of the config, and a field marked with a * is left
// out if there is nothing to tell.
//
//	time                      when it was written
//	countedSince              when Handler was called first: since then picks are
//	                          counted and trails kept
//	channels[]                the oldest first; a channel that is closed, or that gRPC
//	                          has put to sleep, is not among them
//	channelsOmitted           how many more there are
//
// A channel:
//
//	id                        its number in the process, from 1
//	target, state             of the channel
//	created                   when its policy was built
//	progression, overflow, skipClustersWithoutHosts, noHost
//	                          the fields of the config
//	slots[]                   the attempt table
//	slots[].attempt           a number from 1
//	slots[].cluster           where that attempt starts
//	slots[].goesTo            where it would be sent now; "" if nowhere
//	slots[].waits             that cluster is connecting, and the attempt waits for it
//	clusters[]                in the order of the config
//	exhausted[].reason, .count
//	                          attempts that found no cluster: no_host, overflow
//	trails[]                  the latest first
//
// A cluster:
//
//	name, target              target is "" for the channel's own resolver
//	policy, nextPolicy*       the child policy, and the one that is to replace it
//	condition, since          "has a host", "connecting", "idle" or "no host"
//	reason*, cause*           why it has no host: the words of the metric
//	                          composite.skips, and the last error
//	resolverError*            what its resolver said last, if that differs
//	heldBack*                 why attempts pass over it though it has a host:
//	                          max_requests, cooldown, failback_delay
//	lazy*, maxRequests*, connectTimeoutSeconds, attemptTimeoutSeconds*,
//	failbackDelaySeconds*, cooldownSeconds*
//	                          of the config
//	inFlight*                 attempts in flight, if maxRequests limits them
//	endpoints[].addresses[], .addressesOmitted*
//	endpoints[].state         the best of its connections: READY, CONNECTING,
//	                          TRANSIENT_FAILURE, IDLE, or NO_CONNECTION if the child
//	                          policy has made none
//	endpoints[].since*, .error*
//	                          since when, and the last error
//	endpoints[].health*       what a health check says of it, if not READY
//	endpointsOmitted          how many more there are
//	picks[].attempt, .count   attempts sent to it, by number; 64 has all from there on
//	skips[].reason, .count    how often attempts passed over it
//	nested*                   the channel of a composite policy inside the cluster, or
//	                          of the first one if policies in between have several,
//	                          of which id is 0, and nothing is counted
//
// A trail, of an RPC that has ended:
//
//	method, start, durationSeconds
//	code, message*            of the RPC
//	attempts[].number, .cluster, .peer*, .start, .durationSeconds, .code, .message*,
//	.transparent*, .committed*
//	                          see composite.Attempt
//	attempts[].skipped*       clusters that the attempt passed over, each with cluster,
//	                          reason and error*
//	attempts[].skippedOmitted*
//	attemptsOmitted*          from the middle
//
// Texts are cut to 256 bytes, and lists to 50 channels, 50 endpoints of a cluster, 4
// addresses of an endpoint, 24 trails of a channel (of which at most 8 are of RPCs that
// failed on their only attempt), 8 attempts of a trail and 8 skips of an attempt.
package debugz
