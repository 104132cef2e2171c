"""Who leads: a pure decider over one lease record, and its driver."""
