"""Iceberg tables as a source and as a sink; PyFlink has none of its own."""

from __future__ import annotations

from penstock.connectors.lake.sinks import IcebergSink
from penstock.connectors.lake.source import IcebergSource
from penstock.core.refused_names import names_of

__all__ = ["IcebergSink", "IcebergSource"]

__getattr__ = names_of(__name__)
