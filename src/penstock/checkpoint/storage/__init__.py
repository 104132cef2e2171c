"""Checkpoint storage: one contract, and what fulfils it."""
