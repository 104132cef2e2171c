"""PyFlink's `common.configuration`."""

from __future__ import annotations

from penstock.core.configuration import Configuration

__all__ = ["Configuration"]
