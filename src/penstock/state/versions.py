"""What a delta and a base hold, and when deltas become a base.

A *payload* is one file's content: the columns of every table and of both timer domains.
`payload_codec` says how it is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import StateError
from penstock.state import codec, payload_codec
from penstock.state.pickles import Pickles, pickled_file

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle, KeyedStateVersion
    from penstock.state.tables import Columns
    from penstock.state.timers import TimerColumns

FORMAT: Final = 1


@dataclass(slots=True)
class TableColumns:
    """Changes, or the whole, of one table."""

    name: str
    kind: str
    timed: bool
    columns: Columns
    schema: str = ""


@dataclass(slots=True)
class Payload:
    """Changes, or the whole, of one operator's keyed state in one subtask.

    Attributes:
        tables: By table.
        event_timers: Timers in event time.
        processing_timers: Timers in processing time.
        covers: Versions on top of which the payload applies besides the one before it, because
            it was merged from the deltas between them.
    """

    tables: list[TableColumns] = field(default_factory=list)
    event_timers: TimerColumns = field(default_factory=list)
    processing_timers: TimerColumns = field(default_factory=list)
    covers: tuple[str, ...] = ()

    def count_changes(self) -> tuple[int, int]:
        """Returns the number of values, and of list elements, map entries and timers."""
        values = others = 0
        for table in self.tables:
            for _, keys, *rest in table.columns:
                if table.kind == "value":
                    values += len(keys)
                elif table.kind == "list":
                    others += sum(len(items or ()) for items in rest[1])
                else:
                    others += sum(map(len, rest[1])) + sum(map(len, rest[3]))
        timers = (*self.event_timers, *self.processing_timers)
        return values, others + sum(len(added) + len(removed) for _, _, added, removed in timers)

    def encode(self, uid: str, pickles: Pickles = Pickles.ALLOW) -> bytes:
        """Returns the bytes of a file."""
        return payload_codec.encode(
            [
                (table.name, table.kind, table.timed, table.schema, table.columns)
                for table in self.tables
            ],
            (self.event_timers, self.processing_timers),
            self.covers,
            pickles,
            uid,
        )


def decode_payload(data: bytes, name: str, pickles: Pickles = Pickles.ALLOW) -> Payload:
    """Reads what `Payload.encode` of this or an earlier release wrote.

    Raises:
        StateError: It was written by a newer release, or is pickled where that is not allowed.
    """
    what = f"state file {name!r}"
    number = payload_codec.format_of(data)
    if number is not None and not payload_codec.is_known(number):
        raise _newer(what, number)
    if number is not None:
        tables, event_timers, processing_timers, covers = payload_codec.decode(data, pickles, what)
        made = [
            TableColumns(table_name, kind, timed, columns, schema)
            for table_name, kind, timed, schema, columns in tables
        ]
        return Payload(made, event_timers, processing_timers, covers)
    if pickles is not Pickles.ALLOW:
        raise pickled_file(what, pickles)
    plain: Any = codec.loads(data)
    if plain[0] != FORMAT:
        raise _newer(what, plain[0])
    tables_v1 = [TableColumns(*table) for table in plain[1]]
    return Payload(tables_v1, plain[2], plain[3], plain[4])


def _newer(what: str, number: object) -> StateError:
    return StateError(
        f"{what} has format {number}, this release reads up to 2. Restore it "
        "with the release that wrote it, or a newer one."
    )


@dataclass(frozen=True, slots=True)
class FoldPolicy:
    """When deltas are merged, and when they are replaced by a new base.

    A base costs as much as the state is large, a delta as much as changed. Folding once the deltas
    outweigh the base keeps both the bytes written and the bytes to restore within a factor of two.
    Many deltas that are small beside the base are merged instead. What is merged is bounded, since
    the epoch waits for it.

    Attributes:
        max_deltas: Most small deltas of a version.
        max_inline_bytes: Most bytes of deltas that travel in their handles, since a version's
            handles go to the worker and back in each epoch.
        min_bytes: Deltas together below this never fold because of their size.
        base_share: Deltas fold once they are this share of the base.
        full_bytes: Deltas from this size on, or from `full_share` of the base, are merged no more.
        full_share: See `full_bytes`; it bounds their number.
        max_covered: Versions that a merged delta still leads on from; a worker that is further
            behind reads the base.
    """

    max_deltas: int = 32
    max_inline_bytes: int = 64 << 10
    min_bytes: int = 4 << 20
    base_share: float = 1.0
    full_bytes: int = 256 << 10
    full_share: float = 1 / 64
    max_covered: int = 64

    def is_due(self, version: KeyedStateVersion) -> bool:
        """Returns whether the next commit on top of `version` writes a base."""
        base = sum(handle.size_bytes for handle in version.base)
        deltas = sum(handle.size_bytes for handle in version.deltas)
        if deltas >= max(self.min_bytes, base * self.base_share):
            return True
        return base <= deltas and self.are_many(version)

    def are_many(self, version: KeyedStateVersion) -> bool:
        """Returns whether the small deltas of a version are to become fewer."""
        small = self.small_deltas(version)
        inline = sum(handle.size_bytes for handle in small if handle.inline is not None)
        return len(small) >= self.max_deltas or inline > self.max_inline_bytes

    def small_deltas(self, version: KeyedStateVersion) -> tuple[FileHandle, ...]:
        """Returns the newest deltas, behind the last one that is full."""
        base = sum(handle.size_bytes for handle in version.base)
        full = max(self.full_bytes, base * self.full_share)
        first = len(version.deltas)
        while first > 0 and version.deltas[first - 1].size_bytes < full:
            first -= 1
        return version.deltas[first:]
