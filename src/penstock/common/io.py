"""PyFlink's `common.io`: its name, which says what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = ["InputFormat"]

InputFormat = unsupported_class(__name__, "InputFormat")
