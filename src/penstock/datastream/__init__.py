"""PyFlink's `datastream`: programs over streams."""

from __future__ import annotations
