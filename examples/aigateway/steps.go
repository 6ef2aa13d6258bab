package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/grpc-composite/grpc-composite/examples/internal/demo"
)

const prompt = "Why is the sky blue?"

// gateway starts the providers and sends prompts.
func gateway(ctx context.Context, out *demo.Output) error {
	p, err := startProviders()
	if err != nil {
		return err
	}
	defer p.stop()
	cc, err := dial(p.preferred.Addr, p.fallbackA.Addr, p.fallbackB.Addr, p.tls)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	out.Printf("preferred   takes %v\n", p.preferred.limit)
	out.Printf("fallback-a  takes %v\n", p.fallbackA.limit)
	out.Printf("fallback-b  has no limit\n")

	out.Step("One prompt: the tokens of the answer are printed as they come")
	if err := one(ctx, out, cc); err != nil {
		return err
	}
	out.Step("A burst of 12 prompts: what is over a limit goes to the next provider")
	counts, err := burst(ctx, out, cc, 12)
	if err != nil {
		return err
	}
	if counts["preferred"] == 0 || counts["fallback-a"] == 0 || counts["fallback-b"] == 0 {
		return fmt.Errorf("answers by provider: %v: each should have some", counts)
	}
	out.Step("preferred is down: attempt 1 is fallback-a's, attempt 2 fallback-b's")
	p.preferred.Stop()
	// A prompt that is sent before the channel has noticed makes attempt 1 in vain.
	_, err = demo.Await(ctx, func() (missing, failed error) {
		a, err := ask(ctx, cc, prompt, func(answer, string) {})
		if err == nil && a.attempt > 2 {
			missing = fmt.Errorf("%s answered attempt %d: preferred should not have had one", a.provider, a.attempt)
		}
		return missing, err
	})
	if err != nil {
		return err
	}
	if counts, err = burst(ctx, out, cc, 4); err != nil {
		return err
	}
	if counts["preferred"] > 0 {
		return fmt.Errorf("answers by provider: %v: preferred is down", counts)
	}
	out.Printf("\nAll went as it should: not one prompt failed.\n")
	return nil
}

// one sends a prompt and prints the answer while it comes.
func one(ctx context.Context, out *demo.Output, cc *grpc.ClientConn) error {
	begun := false
	_, err := ask(ctx, cc, prompt, func(a answer, text string) {
		if !begun {
			out.Printf("   %s, attempt %d: ", a.provider, a.attempt)
			begun = true
		}
		out.Printf("%s", text)
	})
	out.Printf("\n")
	return err
}

// burst sends n prompts at once, and prints each when its answer is complete. It
// returns how many each provider answered. None may fail.
func burst(ctx context.Context, out *demo.Output, cc *grpc.ClientConn, n int) (map[string]int, error) {
	type result struct {
		number int
		answer answer
		tokens int
		err    error
	}
	results := make(chan result, n)
	for i := range n {
		go func() {
			r := result{number: i + 1}
			r.answer, r.err = ask(ctx, cc, prompt, func(answer, string) { r.tokens++ })
			results <- r
		}()
	}
	const format = "   %6v  %-10v  %-7v  %7v  %11v  %6v\n"
	out.Printf(format, "PROMPT", "PROVIDER", "VERSION", "ATTEMPT", "FIRST TOKEN", "TOKENS")
	counts := make(map[string]int)
	var errs []error
	for range n {
		r := <-results
		if r.err != nil {
			errs = append(errs, fmt.Errorf("prompt %d failed: %w", r.number, r.err))
			continue
		}
		counts[r.answer.provider]++
		out.Printf(format, r.number, r.answer.provider, r.answer.version, r.answer.attempt, demo.Milliseconds(r.answer.firstToken), r.tokens)
	}
	out.Printf("   answered: %d by preferred, %d by fallback-a, %d by fallback-b; failed: %d\n",
		counts["preferred"], counts["fallback-a"], counts["fallback-b"], len(errs))
	return counts, errors.Join(errs...)
}
