"""PyFlink's `datastream.connectors.jdbc`: databases as a source and as a sink."""

from __future__ import annotations

from penstock.connectors.jdbc.client import JdbcConnectionOptions
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.source import JdbcSource, JdbcSourceBuilder
from penstock.connectors.jdbc.writing import JdbcExecutionOptions
from penstock.core.refused_names import names_of

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
]

__getattr__ = names_of(__name__)
