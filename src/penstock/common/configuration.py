"""PyFlink's `common.configuration`."""

from __future__ import annotations

from penstock.core.configuration import Configuration as Configuration
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
