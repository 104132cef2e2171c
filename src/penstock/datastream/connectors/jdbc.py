"""PyFlink's `datastream.connectors.jdbc`: databases as a source and as a sink."""

from __future__ import annotations

from penstock.connectors.jdbc.client import JdbcConnectionOptions as JdbcConnectionOptions
from penstock.connectors.jdbc.sink import JdbcSink as JdbcSink
from penstock.connectors.jdbc.source import (
    JdbcSource as JdbcSource,
    JdbcSourceBuilder as JdbcSourceBuilder,
)
from penstock.connectors.jdbc.writing import JdbcExecutionOptions as JdbcExecutionOptions
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
