"""PyFlink's `datastream.connectors.base`: what sources and sinks are."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class
from penstock.connectors.delivery import DeliveryGuarantee
from penstock.connectors.sink import Sink
from penstock.connectors.source import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]

StreamTransformer = unsupported_class(__name__, "StreamTransformer")
SupportsPreprocessing = unsupported_class(__name__, "SupportsPreprocessing")
