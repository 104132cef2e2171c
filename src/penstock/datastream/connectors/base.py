"""PyFlink's `datastream.connectors.base`: what sources and sinks are."""

from __future__ import annotations

from penstock.connectors.sink import DeliveryGuarantee as DeliveryGuarantee, Sink as Sink
from penstock.connectors.source import Source as Source
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
