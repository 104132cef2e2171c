"""PyFlink's `datastream.output_tag`: names of side outputs."""

from __future__ import annotations

from penstock.operators.output_tag import OutputTag

__all__ = ["OutputTag"]
