"""PyFlink's `datastream.output_tag`: names of side outputs."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.operators.results import OutputTag

__all__ = ["OutputTag"]

__getattr__ = names_of(__name__)
