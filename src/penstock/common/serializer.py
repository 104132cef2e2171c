"""PyFlink's `common.serializer`: names for annotations and subclasses. Nothing asks one."""

from __future__ import annotations

from typing import Generic, TypeVar

from penstock.common.unsupported import unsupported_class, unsupported_method

__all__ = ["TypeSerializer", "VoidNamespaceSerializer"]

T = TypeVar("T")


class TypeSerializer(Generic[T]):
    """What a window assigner's `get_window_serializer` returns.

    Windows are stored in Penstock's own way, so it is never asked to serialize anything.
    """

    serialize = unsupported_method("common.serializer.TypeSerializer.serialize")
    deserialize = unsupported_method("common.serializer.TypeSerializer.deserialize")


VoidNamespaceSerializer = unsupported_class(__name__, "VoidNamespaceSerializer")
