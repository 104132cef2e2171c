"""PyFlink's `common.configuration`."""

from __future__ import annotations

from penstock.core.configuration import Configuration
from penstock.core.refused_names import names_of

__all__ = ["Configuration"]

__getattr__ = names_of(__name__)
