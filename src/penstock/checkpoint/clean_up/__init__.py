"""Deletes what is no longer wanted, and finds what nobody names."""
