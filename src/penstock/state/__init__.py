"""Keyed and operator state, its backends and its versions."""
