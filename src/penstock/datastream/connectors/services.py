"""Redis and servers of HTTP as sinks; PyFlink has neither."""

from __future__ import annotations

from penstock.connectors.web.services import HttpSink as HttpSink, RedisSink as RedisSink
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
