"""PyFlink's `datastream.connectors.number_seq`."""

from __future__ import annotations

from penstock.connectors.number_seq import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
