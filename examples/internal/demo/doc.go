// Package demo is what the examples share and none of them is about: the command
// line, the output, servers that can be broken, and RPCs that tell which server
// answered. Nothing in it knows of the library.
package demo
