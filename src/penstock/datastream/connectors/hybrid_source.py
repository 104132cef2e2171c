"""PyFlink's `datastream.connectors.hybrid_source`: one source after the other."""

from __future__ import annotations

from penstock.connectors.hybrid import HybridSource, HybridSourceBuilder
from penstock.core.refused_names import names_of

__all__ = ["HybridSource", "HybridSourceBuilder"]

__getattr__ = names_of(__name__)
