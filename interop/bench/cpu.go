package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/PID/stat, which Linux keeps the same on
// all machines.
const tick = 10 * time.Millisecond

// processCPU is what a process has used of the processors, or 0 where there is no
// /proc.
func processCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	used, _ := parseStat(string(text))
	return used
}

// parseStat reads the fields utime and stime, the 14th and 15th. The second is the
// program's name, in which there may be anything.
func parseStat(text string) (time.Duration, bool) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, false
	}
	u, err1 := strconv.ParseInt(fields[utime], 10, 64)
	s, err2 := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(u+s) * tick, err1 == nil && err2 == nil
}

// noProxy is what a proxy uses that is not there.
func noProxy() time.Duration { return 0 }
