"""Tables of the `rocksdb` backend: changes since the base in memory, everything else in its rows.

Each table holds, by namespace and key,

* `spaces.entries`: what is known in memory, changes and rows already read,
* `spaces.dirty`: changes since the last commit,
* `overlay`: changes from the base to the last commit, which are in the deltas too.

Reads look into `entries`, then into the base. `evict` reduces `entries` to what only memory has.
A fold turns `overlay` into rows of a new base.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.state.rocksdb.row_values import RowValues
from penstock.state.rocksdb.rows import IS_TIMED, frame, owner_of
from penstock.state.spaces import Spaces
from penstock.state.tables import Table
from penstock.state.ttl import convert_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.state.context import StateContext
    from penstock.state.rocksdb.base import RocksBase
    from penstock.state.rocksdb.rows import RowKeys
    from penstock.state.rocksdb.settings import RocksLimits
    from penstock.state.tables import Conversion

MISSING: Final = object()
"""Not in memory; the base may have it."""

ENTRY_BYTES: Final = 150
"""What an entry costs in memory besides its pickled size: dict slots and object headers."""


class RocksContext:
    """What the tables of one state share."""

    def __init__(
        self,
        base: RocksBase,
        row_keys: RowKeys,
        account: Callable[[int], None],
        state: Evolving,
        limits: RocksLimits,
    ) -> None:
        self.base = base
        self.row_keys = row_keys
        self.account = account
        self.state = state
        self.limits = limits


class Evolving(Protocol):
    """What tables ask of the state that they belong to."""

    @property
    def context(self) -> StateContext: ...

    def conversion(self, name: str, kind: str, before: str, after: str) -> Conversion: ...


class RocksTable(Table):
    """What the three tables share.

    The *overlay* is what changed since the base, up to the last commit. A fold freezes it, writes
    it in slices while another overlay grows, and lets go of it once the base has its rows.

    Attributes:
        in_base: The base may have rows of this table, or gets them by a fold that has begun.
        is_complete: All that the base has is in memory too, so that nothing needs looking up. True
            for as long as a state fits into memory.
        is_read_by_key: There are entries without a namespace, so that prefetching by key pays.
        timed_since_ms: When the state got its TTL; the last access of rows that are older.
    """

    def __init__(self, name: str, context: RocksContext) -> None:
        super().__init__(name)
        self.spaces = Spaces()
        self.overlay: dict[Any, dict[Any, Any]] = {}
        self.frozen: dict[Any, dict[Any, Any]] = {}
        self._context = context
        self._base = context.base
        self._name_frame = frame(name.encode())
        self.pickles = context.state.context.pickles
        what = f"state {name!r} of operator {context.state.context.uid!r}"
        self.values = RowValues(self.kind, what, self.pickles, self._conversion_from)
        self.in_base = False
        self.is_complete = True
        self.is_read_by_key = False
        self.timed_since_ms = 0

    @property
    def is_dirty(self) -> bool:
        return self.spaces.is_dirty

    def reset(self) -> None:
        self.overlay = {}
        self.frozen = {}
        self.spaces.reset()
        self.in_base = False
        self.is_complete = True

    def attach(self) -> None:
        """The table gets a base that has rows of it."""
        self.in_base = True
        self.is_complete = False

    def freeze(self) -> None:
        """The overlay is that of a fold from now on, and another one begins."""
        self.frozen, self.overlay = self.overlay, {}
        # From now on what is removed must be hidden, since the base is going to have it.
        self.in_base = True

    @abstractmethod
    def unfreeze(self) -> None:
        """The fold was given up: both overlays are one again."""

    @abstractmethod
    def folded(self) -> None:
        """The frozen overlay is in the base now."""

    def published(self) -> None:
        """Versions name the base that has the frozen overlay."""

    @abstractmethod
    def evict(self) -> None:
        """Drops from memory what the base has."""

    @abstractmethod
    def frozen_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields the frozen overlay as rows, None to delete; a later one of a row counts."""

    @abstractmethod
    def base_entry(self, row: bytes, data: bytes) -> Any:
        """Returns (key, namespace, value) of a base row, or None if memory knows better."""

    @abstractmethod
    def memory_entries(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields (key, namespace, value) of what memory knows better than the base."""

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        raise NotImplementedError("a rocksdb state yields its entries itself, in one scan")

    def retime(self, *, timed: bool, now_ms: int) -> bool:
        self.timed = timed
        self.timed_since_ms = now_ms if timed else 0
        self._change_each(
            lambda value: convert_value("value", value, to_timed=timed, now_ms=now_ms)
        )
        return self.in_base or not self.spaces.is_empty

    @abstractmethod
    def _change_each(self, change: Callable[[Any], Any]) -> None:
        """Replaces each value, list element and map value in memory."""

    @abstractmethod
    def unexpired(self, data: bytes, deadline_ms: int) -> Any:
        """Returns a timed row's content without what was last accessed by then; None if nothing.

        Returns `MISSING` where nothing is expired.
        """

    def unexpired_row(
        self, row: bytes, data: bytes, deadline_ms: int
    ) -> tuple[bytes, bytes | None] | None:
        """Returns what a row becomes when expired content goes, or None if it stays as it is."""
        content = self.unexpired(data, deadline_ms)
        if content is MISSING:
            return None
        if content is None:
            return row, None
        return row, self.values.encode(content, *self.owner_of(row, data), timed=True)

    def row_of(self, key: Any, ns: Any) -> bytes:
        """Returns the row key of a key and namespace, the prefix of all its rows."""
        row_keys = self._context.row_keys
        return row_keys.of_key(key) + self._name_frame + row_keys.of_namespace(ns)

    def rows_of(self, keys: list[Any], ns: Any) -> list[bytes]:
        """Returns `row_of` of each key."""
        row_keys = self._context.row_keys
        tail = self._name_frame + row_keys.of_namespace(ns)
        return [start + tail for start in row_keys.of_keys(keys)]

    def encode(self, value: Any, key: Any, ns: Any) -> bytes:
        return self.values.encode(value, key, ns, timed=self.timed)

    def decode(self, data: bytes) -> Any:
        """Returns the value in a row value, in the form that the table has now."""
        value = self.values.decode(data)
        if bool(data[-1] & IS_TIMED) is self.timed:
            return value
        return convert_value(self.kind, value, to_timed=self.timed, now_ms=self.timed_since_ms)

    def owner_of(self, row: bytes, data: bytes) -> tuple[Any, Any]:
        """Returns (key, namespace) of a row."""
        return owner_of(row, data, self.pickles)

    # -- types --------------------------------------------------------------------------------

    @property
    def schema(self) -> str:
        return self.values.schema

    @schema.setter
    def schema(self, schema: str) -> None:
        self.values.use(schema)

    def _conversion_from(self, schema: str) -> Conversion:
        return self._context.state.conversion(self.name, self.kind, schema, self.schema)

    def convert(self, schema: str, conversion: Conversion) -> bool:
        """Rows of the base stay what they are, and are converted when they are read."""
        self.values.use(schema)
        if self.timed:
            self._change_each(lambda value: (conversion([value[0]])[0], value[1]))
        else:
            self._change_each(lambda value: conversion([value])[0])
        return self.in_base or not self.spaces.is_empty
