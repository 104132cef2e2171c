"""What the row values of one table hold, and how: pickled, or data of a declared type.

The flags of a row (its last byte) name a *generation*: 0 is pickle, n is the nth schema that the
table has had. So rows of earlier schemas stay as they are, and become values of today's type when
they are read.

    generation 0     the pickle of the content, as `rows` says
    others           msgpack of the content's wire form

    content          value: it, or (it, last access)
                     list: the elements of a chunk, or pairs (element, last access)
                     map: (map key, value), or (map key, (value, last access))
"""

from __future__ import annotations

import contextlib
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.core import codec
from penstock.core.errors import StateError
from penstock.state.plain_serializer import (
    Pickles,
    decode_body,
    decode_column,
    encode_body,
    encode_column,
    newer_format,
    opaque_value,
    pickle_bytes,
    refusal,
    unpickled_plain,
)
from penstock.state.rocksdb.rows import (
    GENERATION_SHIFT,
    IS_TIMED,
    content_of,
    flagged,
    has_plain_owner,
)
from penstock.state.serializers import Serializer, table_serializer
from penstock.state.tables import changed_content, keeping_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.state.tables import Conversion

    Evolve = Callable[[str], Conversion]

_MOST_SCHEMAS: Final = 255 >> GENERATION_SHIFT


class RowValues:
    """Writes and reads the row values of one table.

    Attributes:
        schemas: All schemas that rows may have, oldest first; empty if it was always pickled.
        schema: The one in use, "" for pickle.
        generation: What rows that are written now say.
    """

    def __init__(self, kind: str, what: str, pickles: Pickles, evolve: Evolve) -> None:
        self._kind = kind
        self._what = what
        self._pickles = pickles
        self._evolve = evolve
        self.schemas: list[str] = []
        self.schema = ""
        self.generation = 0
        self._serializer: Serializer | None = None
        self._conversions: dict[str, Conversion] = {}

    def use(self, schema: str) -> None:
        """Writes that type from now on."""
        self._conversions.clear()
        self.schema = schema
        self._serializer = table_serializer(self._kind, schema)
        if self._serializer is None:
            self.generation = 0
            return
        if schema not in self.schemas:
            if len(self.schemas) == _MOST_SCHEMAS:
                raise StateError(
                    f"{self._what} has had {_MOST_SCHEMAS} types; its rows cannot tell more apart. "
                    "Restore a canonical savepoint with the hashmap backend once."
                )
            self.schemas.append(schema)
        self.generation = self.schemas.index(schema) + 1

    def know(self, schemas: Sequence[str]) -> None:
        """Rows may have these schemas, too."""
        self.schemas += [schema for schema in schemas if schema not in self.schemas]
        self.use(self.schema)

    def schema_of(self, generation: int) -> str:
        """Returns the schema of a generation.

        Raises:
            StateError: A row names one that the table never had.
        """
        if generation > len(self.schemas):
            raise StateError(f"{self._what}: a row is malformed. Choose another checkpoint.")
        return self.schemas[generation - 1] if generation else ""

    # -- writing ------------------------------------------------------------------------------

    def encode(self, content: Any, key: Any, ns: Any, *, timed: bool) -> bytes:
        """Returns the value of one row."""
        data = self._bytes(content, timed=timed)
        return flagged(data, key, ns, self.usual_flags(timed=timed), self._pickles, self._what)

    def encode_values(
        self, values: Sequence[Any], keys: Sequence[Any], ns: Any, *, timed: bool
    ) -> list[bytes]:
        """Returns `encode` of each value of a value table."""
        if has_plain_owner(keys, ns):
            tail = bytes((self.usual_flags(timed=timed),))
            try:
                if self._serializer is None and self._pickles is Pickles.ALLOW:
                    return [pickle.dumps(value, codec.PROTOCOL) + tail for value in values]
                if self._serializer is not None and not timed:
                    wire = self._serializer.to_wire(list(values))
                    return [encode_body(item, self._what) + tail for item in wire]
            except Exception:
                # One of them needs another way, or a better error.
                pass
        return [
            self.encode(value, key, ns, timed=timed)
            for value, key in zip(values, keys, strict=True)
        ]

    def usual_flags(self, *, timed: bool) -> int:
        """Returns the flags of rows that are written now, without an owner."""
        return (self.generation << GENERATION_SHIFT) | (IS_TIMED if timed else 0)

    def _bytes(self, content: Any, *, timed: bool) -> bytes:
        if self._serializer is None:
            if self._pickles is not Pickles.ALLOW:
                raise refusal(f"{self._what} would be pickled")
            return pickle_bytes(content, self._what)
        prefix: list[Any] = []
        if self._kind == "map":
            prefix = [encode_column([content[0]], self._pickles, f"a map key of {self._what}")]
            content = content[1]
        values = content if self._kind == "list" else [content]
        times = None
        if timed:
            times, values = [value[1] for value in values], [value[0] for value in values]
        wire = self._serializer.written(values, self._what)
        if self._kind == "value" and times is None:
            return encode_body(wire[0], self._what)
        return encode_body([*prefix, wire, times], self._what)

    # -- reading ------------------------------------------------------------------------------

    def decode(self, data: bytes) -> Any:
        """Returns the content of a row in today's type; whether it is timed, its flags say."""
        flags = data[-1]
        generation = flags >> GENERATION_SHIFT
        if not generation:
            content = self._unpickled(data, timed=bool(flags & IS_TIMED))
        else:
            content = self._read(data, generation, timed=bool(flags & IS_TIMED))
        if generation == self.generation or (not generation and self._pickles is Pickles.OPAQUE):
            return content
        return self._evolved(content, self.schema_of(generation), timed=bool(flags & IS_TIMED))

    def decode_values(self, rows: Sequence[bytes]) -> list[Any]:
        """Returns `decode` of value rows whose flags are the usual ones."""
        if self._serializer is None and self._pickles is Pickles.ALLOW:
            return list(map(pickle.loads, rows))
        if self._serializer is None or rows[0][-1] & IS_TIMED:
            return list(map(self.decode, rows))
        return self._serializer.from_wire([decode_body(data[:-1]) for data in rows])

    def _unpickled(self, data: bytes, *, timed: bool) -> Any:
        if self._pickles is Pickles.ALLOW:
            return pickle.loads(data)
        if self._pickles is Pickles.REFUSE:
            raise refusal(f"{self._what} is pickled in the snapshot")
        with contextlib.suppress(Exception):
            return unpickled_plain(data)
        hidden = opaque_value(content_of(data))
        value = (hidden, 0) if timed else hidden
        if self._kind == "map":
            return hidden, value
        return [value] if self._kind == "list" else value

    def _read(self, data: bytes, generation: int, *, timed: bool) -> Any:
        reader = self._serializer
        if generation != self.generation:
            reader = table_serializer(self._kind, self.schema_of(generation))
        assert reader is not None
        body = decode_body(content_of(data))
        if self._kind == "value" and not timed:
            return reader.from_wire([body])[0]
        *prefix, wire, times = body
        values = reader.from_wire(wire)
        if times is not None:
            values = list(zip(values, times, strict=True))
        if self._kind == "list":
            return values
        if self._kind == "map":
            (map_key,) = decode_column(prefix[0], self._pickles, f"a map key of {self._what}")
            return map_key, values[0]
        return values[0]

    def _evolved(self, content: Any, schema: str, *, timed: bool) -> Any:
        convert = self._conversions.get(schema)
        if convert is None:
            convert = self._conversions[schema] = self._evolve(schema)
        return changed_content(self._kind, content, keeping_times(convert, timed=timed))


def renumbered_flags(before: Sequence[str], after: Sequence[str]) -> list[bytes]:
    """Returns the new flags of rows by their old ones, after a table renumbered its schemas."""
    place = [0, *(after.index(schema) + 1 for schema in before)]
    mask = (1 << GENERATION_SHIFT) - 1
    return [
        bytes(((place[flags >> GENERATION_SHIFT] << GENERATION_SHIFT) | (flags & mask),))
        for flags in range(len(place) << GENERATION_SHIFT)
    ]


# The last file of a `rocksdb` base: what the others are, and what their rows mean.
#
# mark      C1 'R' 1
# [names of the files for RocksDB, tables, folds, whether it has event timers, processing timers]
# table     [name, kind, timed, read by key, timed since, schema, schemas that rows may have]


_MARK: Final = b"\xc1R\x01"


class TableDescription(NamedTuple):
    """A table, as a base remembers it; the fields are those of the table."""

    name: str
    kind: str
    timed: bool
    is_read_by_key: bool
    timed_since_ms: int
    schema: str = ""
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BaseDescription:
    """What a base holds.

    Attributes:
        files: Their names for RocksDB, in the order of the handles.
        tables: All that it has rows of.
        folds: Number of folds that made the base.
        event_timers: Whether there are any; if so, they may be gone since.
        processing_timers: The same for processing time.
    """

    files: list[str]
    tables: list[TableDescription]
    folds: int
    event_timers: bool
    processing_timers: bool


def encode_description(description: BaseDescription) -> bytes:
    """Returns the bytes of the file."""
    body = [
        description.files,
        description.tables,
        description.folds,
        description.event_timers,
        description.processing_timers,
    ]
    return _MARK + encode_body(body, "the description of a base")


def decode_description(data: bytes, name: str) -> BaseDescription:
    """Reads what `encode_description` wrote.

    Raises:
        StateError: A newer release wrote it, or it is malformed.
    """
    what = f"state file {name!r}"
    if not data.startswith(_MARK[:2]):
        raise StateError(f"{what} describes no base. Choose another checkpoint.")
    if not data.startswith(_MARK):
        raise newer_format(what, data[2], _MARK[2])
    files, tables, *counts = decode_body(data[len(_MARK) :])
    made = [TableDescription._make([*fields, tuple(schemas)]) for *fields, schemas in tables]
    return BaseDescription(files, made, *counts)
