"""Databases as sources and sinks; `datastream.connectors.jdbc` is the public module."""
