"""PyFlink's `datastream.connectors.number_seq`."""

from __future__ import annotations

from penstock.connectors.generator import NumberSequenceSource
from penstock.core.refused_names import names_of

__all__ = ["NumberSequenceSource"]

__getattr__ = names_of(__name__)
