// Package differential runs random scenarios through a real Envoy's composite
// cluster and through ours, and compares which clusters served them, and how the
// calls ended.
package differential
