"""Servers that are reached by HTTP: search clusters, schema registries, servers of your own."""
