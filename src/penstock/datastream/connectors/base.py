"""PyFlink's `datastream.connectors.base`: what sources and sinks are."""

from __future__ import annotations

from penstock.connectors.sink import DeliveryGuarantee, Sink
from penstock.connectors.source import Source
from penstock.core.refused_names import names_of

__all__ = [
    "DeliveryGuarantee",
    "Sink",
    "Source",
]

__getattr__ = names_of(__name__)
