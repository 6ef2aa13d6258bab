package composite

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/grpc-composite/grpc-composite/internal/breaker"
	pb "github.com/grpc-composite/grpc-composite/proto/composite/v1"
)

const (
	defaultCooldownTime    = 10 * time.Second
	defaultCooldownMaxTime = 300 * time.Second
)

// parseCooldown reads the config of a breaker, or returns nil if there is none.
func parseCooldown(msg *pb.Cooldown, path string) (*breaker.Config, error) {
	if msg == nil {
		return nil, nil
	}
	cfg := &breaker.Config{
		Failures: int64(msg.GetConsecutiveFailures()),
		Codes:    breaker.CodesOf(codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted),
		Time:     defaultCooldownTime,
	}
	if cfg.Failures == 0 {
		return nil, fieldError(path+".consecutiveFailures", "", "must be given, and be at least 1")
	}
	if len(msg.GetCodes()) > 0 {
		cfg.Codes = 0
	}
	for i, name := range msg.GetCodes() {
		code, ok := failureCode(name)
		if !ok {
			return nil, fieldError(fmt.Sprintf("%s.codes[%d]", path, i), strconv.Quote(name), "must be the name of a status code such as UNAVAILABLE, and not OK or CANCELLED")
		}
		cfg.Codes |= breaker.CodesOf(code)
	}
	if d := msg.GetTime(); d != nil {
		if cfg.Time = d.AsDuration(); cfg.Time <= 0 {
			return nil, fieldError(path+".time", protojson.Format(d), "must be positive")
		}
	}
	cfg.MaxTime = max(defaultCooldownMaxTime, cfg.Time)
	if d := msg.GetMaxTime(); d != nil {
		if cfg.MaxTime = d.AsDuration(); cfg.MaxTime < cfg.Time {
			return nil, fieldError(path+".maxTime", protojson.Format(d), fmt.Sprintf("must be at least as long as time, which is %v", cfg.Time))
		}
	}
	return cfg, nil
}

// failureCode reads the name of a code that can be a failure.
func failureCode(name string) (codes.Code, bool) {
	if name != strings.ToUpper(name) || strings.ContainsAny(name, `"\\`) {
		return 0, false
	}
	var code codes.Code
	if err := code.UnmarshalJSON([]byte(strconv.Quote(name))); err != nil {
		return 0, false
	}
	return code, code != codes.OK && code != codes.Canceled
}
