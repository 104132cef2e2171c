"""PyFlink's `datastream.connectors.hybrid_source`: one source after the other."""

from __future__ import annotations

from penstock.connectors.hybrid import (
    HybridSource as HybridSource,
    HybridSourceBuilder as HybridSourceBuilder,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
