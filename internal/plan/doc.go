// Package plan decides which cluster serves an attempt.
//
// It is pure: [NewSlots] turns the entries of a config into slots, [Table] joins
// them with the conditions that the clusters are in, and a pick walks over the
// sets of slots of [Table.From]. A table never changes; a new one replaces it
// when a condition does.
package plan
