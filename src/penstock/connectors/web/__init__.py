"""Servers that are reached by HTTP, and Redis."""
