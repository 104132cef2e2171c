"""PyFlink's `common.serializer`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]

TypeSerializer = unsupported_class("common.serializer.TypeSerializer")
VoidNamespaceSerializer = unsupported_class("common.serializer.VoidNamespaceSerializer")
