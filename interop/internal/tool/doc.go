// Package tool gets what tests need beyond Go: packages of other languages, and
// processes that end with the test.
package tool
