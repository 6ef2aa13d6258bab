package composite_test

import (
	"slices"
	"strings"
)

// serve has a cluster answer. It returns the code, whether the RPC ends with it
// in any case, and whether gRPC repeats the attempt.
func (r *modelRun) serve(path []*modelCluster, first bool) (code string, last, again bool) {
	c := path[len(path)-1]
	reply := r.reply(c.name)
	hit := modelHit{Cluster: c.name}
	timeout, fresh := false, false
	for _, p := range path {
		timeout, fresh = timeout || p.settings.AttemptTimeout, fresh || r.fresh[p]
		hit.Avoids = hit.Avoids || p.settings.AvoidHosts >= modelSurelyAvoids
	}
	hit.Avoids = hit.Avoids && !fresh
	r.noteHit(c, hit)
	r.out.Hits = append(r.out.Hits, hit)
	tokens := beginModel(path)
	switch {
	case reply.Raw == "refuse" && first:
		// The server never saw the attempt.
		for _, t := range tokens {
			t.ended("CANCELLED")
		}
		return "", false, true
	case reply.Hang && timeout:
		r.note(featureAttemptTimeout)
		r.out.timeouts++
		code = "DEADLINE_EXCEEDED"
	case reply.Hang:
		code, last = r.wait(true), true
	default:
		code, last = reply.code(), reply.Headers || reply.Late
		r.noteReply(reply)
	}
	for _, t := range tokens {
		r.noteIf(t.ended(code), featureRestBegins)
	}
	return code, last, false
}

// reply is the one to the next attempt that a cluster gets.
func (r *modelRun) reply(name string) modelReply {
	n := r.seen[name]
	r.seen[name]++
	list := r.rpc.Replies[name]
	if len(list) == 0 {
		return modelReply{}
	}
	return list[min(n, len(list)-1)]
}

// code is what the client gets if it waits for the reply.
func (r modelReply) code() string {
	switch {
	case r.Raw == "reset":
		return "INTERNAL"
	case r.Raw != "":
		return "UNAVAILABLE"
	case r.Code == "":
		return "OK"
	default:
		return r.Code
	}
}

func beginModel(path []*modelCluster) []modelToken {
	var tokens []modelToken
	for _, c := range path {
		tokens = append(tokens, c.begin())
	}
	return tokens
}

// wait has something happen while the RPC waits: for a cluster, or for a server
// that does not answer. It returns the RPC's code if that ends it.
func (r *modelRun) wait(answer bool) (code string) {
	w := modelWait{AfterHits: len(r.out.Hits), AfterEnds: r.ends, Do: r.rpc.OnWait}
	switch {
	case w.Do == "free" && !answer && r.free(&w):
		r.note(featureFreed)
	case strings.HasPrefix(w.Do, "restore") && !answer && r.restore(&w):
		r.note(featureRestored)
	case w.Do == "deadline" && len(r.out.Waits)+r.out.timeouts == 0: // or it would be over by now
		r.note(featureDeadline)
		code = "DEADLINE_EXCEEDED"
	default:
		r.note(featureCancelled)
		w.Do, code = "cancel", "CANCELLED"
	}
	r.out.Waits = append(r.out.Waits, w)
	return code
}

// free ends a held RPC that takes a place in a cluster the RPC found full.
func (r *modelRun) free(w *modelWait) bool {
	for i, h := range r.m.held {
		for _, t := range h.path {
			if slices.Contains(r.full, t.cluster) {
				w.held = i
				r.m.release(i)
				return true
			}
		}
	}
	return false
}

// restore makes the first cluster well, or the last one, of those that the RPC
// found without a host, or waits for.
func (r *modelRun) restore(w *modelWait) bool {
	sick := slices.DeleteFunc(r.sick, func(c *modelCluster) bool { return c.settings.Inner != nil })
	if len(sick) == 0 {
		return false
	}
	c := sick[0]
	if w.Do == "restore last" {
		c = sick[len(sick)-1]
	}
	w.Do, w.Cluster, r.fresh[c] = "restore", c.name, true
	r.m.restore(c.name)
	return true
}
