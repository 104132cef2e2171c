"""PyFlink's `datastream.connectors.number_seq`."""

from __future__ import annotations

from penstock.connectors.generator import NumberSequenceSource as NumberSequenceSource
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
