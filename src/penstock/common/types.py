"""PyFlink's `common.types`: rows."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.core.row import Row as Row, RowKind as RowKind

__getattr__ = facade(__name__)
