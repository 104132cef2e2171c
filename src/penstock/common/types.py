"""PyFlink's `common.types`: rows."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.core.row import Row, RowKind

__all__ = ["Row", "RowKind"]

__getattr__ = names_of(__name__)
