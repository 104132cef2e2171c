"""PyFlink's `datastream.formats.json`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

JsonRowDeserializationSchema = unsupported_class(__name__, "JsonRowDeserializationSchema")
JsonRowSerializationSchema = unsupported_class(__name__, "JsonRowSerializationSchema")
