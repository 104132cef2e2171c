"""PyFlink's `datastream.connectors.hybrid_source`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = ["HybridSource", "HybridSourceBuilder"]

HybridSource = unsupported_class(__name__, "HybridSource")
HybridSourceBuilder = unsupported_class(__name__, "HybridSourceBuilder")
