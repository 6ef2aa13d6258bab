package attempt

// Method is the full name of the RPC's method.
func (l *Ledger) Method() string { return l.method }

// OneAttempt tells whether the RPC has had no more than one attempt.
func (l *Ledger) OneAttempt() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heads == nil || l.heads == &l.first && l.first.sibling == nil
}
