"""Redis and servers of HTTP as sinks; PyFlink has neither."""

from __future__ import annotations

from penstock.connectors.redis import RedisSink
from penstock.connectors.web.http_sink import HttpSink

__all__ = ["HttpSink", "RedisSink"]
