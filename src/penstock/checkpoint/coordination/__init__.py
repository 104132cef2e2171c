"""The checkpoint coordinator: a pure decider, its events, its instructions and its steps."""
