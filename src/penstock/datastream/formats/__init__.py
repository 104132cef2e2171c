"""PyFlink's `datastream.formats`: its names, which say what to use instead."""

from __future__ import annotations

__all__: list[str] = []
