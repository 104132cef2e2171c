"""Redis and servers of HTTP as sinks; PyFlink has neither."""

from __future__ import annotations

from penstock.connectors.web.services import HttpSink, RedisSink

__all__ = ["HttpSink", "RedisSink"]
