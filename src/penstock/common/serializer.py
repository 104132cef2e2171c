"""PyFlink's `common.serializer`: names for annotations and subclasses. Nothing asks one."""

from __future__ import annotations

from typing import Generic, TypeVar

from penstock.core.refused_names import names_of, refused_method

__getattr__ = names_of(__name__)

T = TypeVar("T")


class TypeSerializer(Generic[T]):
    """What a window assigner's `get_window_serializer` returns.

    Windows are stored in Penstock's own way, so it is never asked to serialize anything.
    """

    serialize = refused_method("common.serializer.TypeSerializer.serialize")
    deserialize = refused_method("common.serializer.TypeSerializer.deserialize")
