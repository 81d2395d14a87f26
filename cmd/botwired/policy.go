package main

import (
	"sync/atomic"
	"time"

	"github.com/botwired/botwired/cache"
	"github.com/botwired/botwired/config"
	"github.com/botwired/botwired/upstream/quota"
)

// inForce is the configuration in force. Its methods return a namespace's settings to the daemon's
// parts, which ask each time because a reload may change them.
type inForce struct{ atomic.Pointer[config.Config] }

func (c *inForce) of(namespace string) config.Policy { return c.Load().For(namespace) }

func (c *inForce) cachePolicy(namespace string) cache.Policy {
	p := c.of(namespace)
	out := cache.Policy{
		FreshFor: p.FreshFor, StaleWhileRevalidate: p.StaleWhileRevalidate,
		StaleIfError: p.StaleIfError, AbsentFor: p.AbsentFor,
	}
	if p.StaleIfError == config.NoLimit {
		out.StaleIfError = cache.Forever
	}
	return out
}

func (c *inForce) writeThrough(namespace string) bool { return c.of(namespace).WriteThrough }

func (c *inForce) prefetch(namespace string) bool { return c.of(namespace).Prefetch }

func (c *inForce) assumeAbsent(namespace string) bool {
	return c.of(namespace).Offline == config.AssumeAbsent
}

func (c *inForce) fence(namespace string) bool { return c.of(namespace).Fence }

func (c *inForce) linger(namespace string) time.Duration { return c.of(namespace).Linger }

func (c *inForce) quota(namespace string) quota.Limit {
	q := c.of(namespace).Quota
	return quota.Limit{Writes: q.WritesPerDay, Period: q.Period, MaxAge: q.MaxAge}
}

func (c *inForce) maxBytes(namespace string) int64 { return c.of(namespace).Quota.NamespaceBytes }
