"""PyFlink's `datastream.formats.orc`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = ["OrcBulkWriters"]

OrcBulkWriters = unsupported_class(__name__, "OrcBulkWriters")
