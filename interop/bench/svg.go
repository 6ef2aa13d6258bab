package main

func picture(*results) string { return "<svg xmlns=\"http://www.w3.org/2000/svg\"/>" }
