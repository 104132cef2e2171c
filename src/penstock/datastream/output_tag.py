"""PyFlink's `datastream.output_tag`: names of side outputs."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.operators.results import OutputTag as OutputTag

__getattr__ = facade(__name__)
