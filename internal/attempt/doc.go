// Package attempt counts the attempts of an RPC.
//
// gRPC tells a load-balancing policy nothing about attempts, so two parts that
// it does offer work together. An interceptor opens a [Ledger] for the RPC and
// puts it into the RPC's context. A stats handler then sees each attempt begin
// and end, and stamps its number into the context of that attempt, which is
// what a picker reads through [FromContext].
//
// The two are installed together, by [Interceptors] and [StatsHandler]; one without the
// other counts nothing. If the interceptors are Lean there is no handler: the picker
// begins an attempt when it sees a new context, and learns of its end from gRPC's Done.
//
// What makes counting harder than counting stats.Begin events:
//
//   - a transparent retry is no attempt of its own, since no server saw the one
//     before it;
//   - when an attempt's first operation fails (the pick, or opening the stream),
//     gRPC-Go begins the next attempt twice, and the first of the pair is never
//     picked for nor ended;
//   - one ledger may serve several streams, one after another (an interceptor
//     inside ours that retries) or at once (one that hedges).
package attempt
