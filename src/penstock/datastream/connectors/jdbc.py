"""PyFlink's `datastream.connectors.jdbc`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = ["JdbcConnectionOptions", "JdbcExecutionOptions", "JdbcSink"]

JdbcConnectionOptions = unsupported_class(__name__, "JdbcConnectionOptions")
JdbcExecutionOptions = unsupported_class(__name__, "JdbcExecutionOptions")
JdbcSink = unsupported_class(__name__, "JdbcSink")
