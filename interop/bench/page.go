package main

import _ "embed" // the page's text

// pageHead and pageFoot are what the page says before and after the numbers.
var (
	//go:embed page_head.md
	pageHead string
	//go:embed page_foot.md
	pageFoot string
)
