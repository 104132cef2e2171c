"""PyFlink's `common.constants`: the ends of time."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.core.times import MAX_TIMESTAMP, MIN_TIMESTAMP

__all__ = ["DEFAULT_OUTPUT_TAG", "MAX_LONG_VALUE", "MIN_LONG_VALUE"]

__getattr__ = names_of(__name__)

MAX_LONG_VALUE = MAX_TIMESTAMP
MIN_LONG_VALUE = MIN_TIMESTAMP
DEFAULT_OUTPUT_TAG = ""
