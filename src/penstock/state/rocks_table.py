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
from typing import TYPE_CHECKING, Any, Final

from penstock.state import codec
from penstock.state.rows import encode_value, frame, owner_of
from penstock.state.spaces import Spaces
from penstock.state.tables import Table
from penstock.state.timed import convert_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.state.rocks_base import RocksBase
    from penstock.state.rows import RowKeys

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
    ) -> None:
        self.base = base
        self.row_keys = row_keys
        self.account = account


class RocksTable(Table):
    """What the three tables share.

    Attributes:
        in_base: The base may have rows of this table.
        is_complete: Whatever the base has is in memory too, so that nothing needs looking up. True
            for as long as a state fits into memory.
        is_read_by_key: There are entries without a namespace, so that prefetching by key pays.
        timed_since_ms: When the state got its TTL; the last access of rows that are older.
    """

    def __init__(self, name: str, context: RocksContext) -> None:
        super().__init__(name)
        self.spaces = Spaces()
        self.overlay: dict[Any, dict[Any, Any]] = {}
        self._context = context
        self._base = context.base
        self._name_frame = frame(name.encode())
        self._what = f"state {name!r}"
        self.in_base = False
        self.is_complete = True
        self.is_read_by_key = False
        self.timed_since_ms = 0

    @property
    def is_dirty(self) -> bool:
        return self.spaces.is_dirty

    def reset(self) -> None:
        self.overlay.clear()
        self.spaces.reset()
        self.in_base = False
        self.is_complete = True

    def attach(self) -> None:
        """The table gets a base that has rows of it."""
        self.in_base = True
        self.is_complete = False

    def folded(self) -> None:
        """The overlay is in the base now."""
        self.overlay.clear()
        self.in_base = True

    @abstractmethod
    def evict(self) -> None:
        """Drops from memory what the base has."""

    @abstractmethod
    def overlay_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields the overlay as rows, None for rows to delete; a later one of a key counts."""

    @abstractmethod
    def base_entry(self, row: bytes, data: bytes) -> Any:
        """Returns (key, namespace, value) of a base row, or None if memory knows better."""

    @abstractmethod
    def memory_entries(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields (key, namespace, value) of what memory knows better than the base."""

    def entries_of_all(self) -> Iterator[tuple[Any, Any, Any]]:
        raise NotImplementedError("a rocksdb state yields its entries itself, in one scan")

    def _set_timed(self, timed: bool, now_ms: int) -> None:
        self.timed = timed
        self.timed_since_ms = now_ms if timed else 0

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
        return row, encode_value(content, *owner_of(row, data), timed=True, what=self._what)

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
        return encode_value(value, key, ns, timed=self.timed, what=self._what)

    def decode(self, data: bytes) -> Any:
        """Returns the value in a row value, in the form that the table has now."""
        value = codec.loads(data)
        is_timed = data[-1] > 1
        if is_timed is self.timed:
            return value
        return convert_value(self.kind, value, to_timed=self.timed, now_ms=self.timed_since_ms)
