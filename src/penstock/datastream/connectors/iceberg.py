"""Iceberg tables as a source and as a sink; PyFlink has none of its own."""

from __future__ import annotations

from penstock.connectors.lake.sinks import IcebergSink as IcebergSink
from penstock.connectors.lake.source import IcebergSource as IcebergSource
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
