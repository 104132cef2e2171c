"""Delta tables as a source and as a sink; PyFlink has none of its own."""

from __future__ import annotations

from penstock.connectors.lake.sinks import DeltaSink
from penstock.connectors.lake.source import DeltaSource
from penstock.core.refused_names import names_of

__all__ = ["DeltaSink", "DeltaSource"]

__getattr__ = names_of(__name__)
