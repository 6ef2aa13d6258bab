package composite

import "fmt"

const (
	lintSlash   = `it has a "/", and gRPC-Go adds its own: the entry is for RPCs whose path %s, and generated code makes none`
	meantS      = `perhaps it should be {"service": "p.S"}`
	meantSM     = `perhaps it should be {"service": "p.S", "method": "M"}`
	noSlashes   = `write {"service": "package.Service", "method": "Method"}, without slashes`
	nameOfEntry = "methodConfig[1].name[0]"
)

// alsoNamed is a config with an entry for all methods, and another with these names.
func alsoNamed(names string) string {
	return lintConfig(lintAB, "", `,"methodConfig":[{"name":[{}],`+retryPolicy(2)+`},{"name":[`+names+`],`+retryPolicy(2)+`}]`)
}

var lintNameCases = []lintCase{
	{"names", alsoNamed(`{"service":"p.S"},{"service":"p.T","method":"M"}`), nil},
	{"a service with a slash before", alsoNamed(`{"service":"/p.S"}`), []Finding{
		{Warning, nameOfEntry + ".service", fmt.Sprintf(lintSlash, `begins with "//p.S/"`), meantS}}},
	{"a service with a slash behind", alsoNamed(`{"service":"p.S/","method":"M"}`), []Finding{
		{Warning, nameOfEntry + ".service", fmt.Sprintf(lintSlash, `is "/p.S//M"`), meantSM}}},
	{"a method with a slash before", alsoNamed(`{"service":"p.T"},{"service":"p.S","method":"/M"}`), []Finding{
		{Warning, "methodConfig[1].name[1].method", fmt.Sprintf(lintSlash, `is "/p.S//M"`), meantSM}}},
	{"a service that has the method", alsoNamed(`{"service":"p.S/M"}`), []Finding{
		{Warning, nameOfEntry + ".service", fmt.Sprintf(lintSlash, `begins with "/p.S/M/"`), meantSM}}},
	{"a service that has the whole path", alsoNamed(`{"service":"/p.S/M"}`), []Finding{
		{Warning, nameOfEntry + ".service", fmt.Sprintf(lintSlash, `begins with "//p.S/M/"`), meantSM}}},
	{"a method that has the whole path", alsoNamed(`{"service":"p.S","method":"/p.S/M"}`), []Finding{
		{Warning, nameOfEntry + ".method", fmt.Sprintf(lintSlash, `is "/p.S//p.S/M"`), noSlashes}}},
	{"a service that is a slash", alsoNamed(`{"service":"/"}`), []Finding{
		{Warning, nameOfEntry + ".service", fmt.Sprintf(lintSlash, `begins with "///"`), noSlashes}}},
}
