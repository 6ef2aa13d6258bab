//go:build !unix

package tool

import "errors"

// lock needs a lock between processes that ends with its process.
func lock(string) (func(), error) {
	return nil, errors.New("packages are installed on Unix alone")
}
