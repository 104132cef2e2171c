"""Avro and ORC files, block by block.

A split is a run of blocks, and a position is [block, record in it], so a read stops anywhere. The
block that was read last stays decoded. Blocks of ORC are stripes; those of Avro are runs of its
own small blocks, named by the byte at which they begin.
"""

from __future__ import annotations

import importlib
import io
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.files.formats import BulkFormat, record_maker
from penstock.connectors.files.inputs import PLAIN, FileReader, InputFile, Inputs
from penstock.connectors.files.source import FileSource
from penstock.connectors.formats.avro_rows import (
    AvroSchema,
    GenericRecordAvroTypeInfo,
    avro_library,
)
from penstock.connectors.formats.fields import zigzag
from penstock.connectors.source import Budget, ReadResult, SourceReader, Split
from penstock.core.errors import InputError, JobExecutionError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUN_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 1 << 16
_SYNC_BYTES: Final = 16


class BlockFile:
    """An open file of blocks."""

    @abstractmethod
    def first(self, start: Any) -> Any:
        """Returns the first block of a split, by how the split was made."""

    @abstractmethod
    def block(self, number: Any, end: Any) -> tuple[list[Any], Any]:
        """Returns the records of a block, and the next block of the split or None."""

    @abstractmethod
    def close(self) -> None:
        """Closes the file."""


class BlockReader(FileReader[BlockFile]):
    """Reads splits whose data have `path`, `size`, `version`, `start` and `end`.

    Args:
        inputs: Where files are.
        opened: Opens one.
    """

    def __init__(self, inputs: Inputs, opened: Callable[[str, Inputs], BlockFile]) -> None:
        super().__init__(inputs)
        self._open = opened
        self._key: Any = None
        self._block: tuple[list[Any], Any] = [], None

    def open_file(self, path: str) -> BlockFile:
        return self._open(path, self._inputs)

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        data, file = split.data, self.opened(split.data)
        values: list[Any] = []
        number, skipped = position if position else (file.first(data["start"]), 0)
        while number is not None:
            if self._key != (number, data["end"]):
                self._block = file.block(number, data["end"])
                self._key = number, data["end"]
            records, following = self._block
            taken = records[skipped : skipped + budget.max_records - len(values)]
            values += taken
            skipped += len(taken)
            if skipped < len(records):
                break
            number, skipped = following, 0
            if len(values) >= budget.max_records:
                break
        is_done = number is None
        return ReadResult(values, [number, skipped], finished=is_done, has_more=not is_done)

    def close(self) -> None:
        self._key, self._block = None, ([], None)
        super().close()


def _split(file: InputFile, start: Any, end: Any) -> Split:
    return file.split(f"block-{start}", None, start=start, end=end)


class AvroFormat(BulkFormat):
    """Records of Avro container files as dicts, with the values that fastavro gives.

    Args:
        schema: What records are read as; None for the schema that each file was written with.
    """

    def __init__(self, schema: AvroSchema | None = None) -> None:
        avro_library()
        self.schema = schema

    def splits(self, file: InputFile, block_bytes: int, inputs: Inputs = PLAIN) -> list[Split]:
        starts = range(0, file.size_bytes, block_bytes)
        return [_split(file, start, min(start + block_bytes, file.size_bytes)) for start in starts]

    def create_reader(self, inputs: Inputs = PLAIN) -> SourceReader:
        schema = None if self.schema is None else self.schema.parsed
        return BlockReader(inputs, lambda path, where: _AvroFile(path, where, schema))


class _AvroFile(BlockFile):
    """Gives runs of blocks to fastavro behind the header of the file, as files of their own."""

    def __init__(self, path: str, inputs: Inputs, schema: Any) -> None:
        self._path = path
        self._schema = schema
        self._library = avro_library()
        self._stream = inputs.open(path)
        try:
            header = self._library.reader(self._stream)
        except (ValueError, EOFError, self._library.schema.SchemaParseException) as error:
            self._stream.close()
            raise InputError(f"{path} cannot be read as Avro: {error!r:.200}") from error
        self._sync: bytes = header._header["sync"]
        head = self._at(0, _HEAD_BYTES)
        while (found := head.find(self._sync)) < 0:
            head = self._at(0, 2 * len(head))
        self._head = head[: found + _SYNC_BYTES]

    def _at(self, start: int, size: int) -> bytes:
        self._stream.seek(start)
        data: bytes = self._stream.read(size)
        return data

    def first(self, start: int) -> int | None:
        """Returns where the first block begins behind a mark that begins at `start` or later."""
        if start <= len(self._head) - _SYNC_BYTES:
            return len(self._head)
        at = start
        while data := self._at(at, _RUN_BYTES):
            found = data.find(self._sync)
            if found >= 0:
                return at + found + _SYNC_BYTES
            if len(data) < _RUN_BYTES:
                break
            at += len(data) - _SYNC_BYTES + 1
        return None

    def block(self, number: int, end: int) -> tuple[list[Any], int | None]:
        # A block belongs to the range in which the mark before it begins.
        if number - _SYNC_BYTES >= end:
            return [], None
        at = number
        while True:
            following = self._behind(at)
            if following is None:
                break
            at = following
            if at - _SYNC_BYTES >= end or at - number >= _RUN_BYTES:
                break
        is_last = following is None or at - _SYNC_BYTES >= end
        return self._records(self._at(number, at - number)), None if is_last else at

    def _behind(self, at: int) -> int | None:
        """Returns where the block that begins at a byte ends; None at the end of the file."""
        head = self._at(at, 2 * 10)
        if not head:
            return None
        try:
            size, length = zigzag(head, zigzag(head, 0)[1])
        except IndexError:
            raise self._damaged(at) from None
        end = at + length + size + _SYNC_BYTES
        if size < 0 or self._at(end - _SYNC_BYTES, _SYNC_BYTES) != self._sync:
            raise self._damaged(at)
        return end

    def _records(self, blocks: bytes) -> list[Any]:
        if not blocks:
            return []
        whole = io.BytesIO(self._head + blocks)
        try:
            return list(self._library.reader(whole, self._schema))
        except (ValueError, EOFError, LookupError, TypeError) as error:
            raise InputError(f"{self._path} cannot be read as Avro: {error!r:.200}") from error
        except self._library.read.SchemaResolutionError as error:
            raise InputError(
                f"{self._path} has another schema than the records shall have: {error!r:.200}"
            ) from error

    def _damaged(self, at: int) -> InputError:
        return InputError(f"{self._path} is damaged: the block at byte {at:,} has no end.")

    def close(self) -> None:
        self._stream.close()


class AvroInputFormat:
    """Avro files as `env.create_input()` takes them.

    Args:
        path: A file, a directory, a pattern or an address.
        schema: What records are read as.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        if not isinstance(schema, AvroSchema):
            raise ProgramError(f"AvroInputFormat(path, {schema!r:.80}) takes an AvroSchema.")
        self.path = str(path)
        self.schema = schema

    def source(self) -> FileSource:
        """Returns the source that reads the files."""
        return FileSource.for_bulk_file_format(AvroFormat(self.schema), self.path).build()

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        return GenericRecordAvroTypeInfo(self.schema)


class OrcFormat(BulkFormat):
    """Rows of ORC files, with the values that pyarrow's `to_pylist` gives.

    Args:
        columns: The columns to read, in this order; None = all.
        records: `dict`, `tuple`, `row`, or a function that takes a dict.
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        records: str | Callable[[dict[str, Any]], Any] = "dict",
    ) -> None:
        record_maker(records, ())  # A wrong name fails here, in the program.
        self.columns = None if columns is None else list(columns)
        self.records = records

    def splits(self, file: InputFile, block_bytes: int, inputs: Inputs = PLAIN) -> list[Split]:
        orc = _OrcFile(file.path, inputs, self)
        try:
            count = orc.stripes
        finally:
            orc.close()
        width = max(1, count * block_bytes // max(1, file.size_bytes))
        return [_split(file, first, min(first + width, count)) for first in range(0, count, width)]

    def create_reader(self, inputs: Inputs = PLAIN) -> SourceReader:
        return BlockReader(inputs, lambda path, where: _OrcFile(path, where, self))


class _OrcFile(BlockFile):
    def __init__(self, path: str, inputs: Inputs, of: OrcFormat) -> None:
        orc: Any = importlib.import_module("pyarrow.orc")
        self._path = path
        self._stream = inputs.open(path)
        try:
            self._file = orc.ORCFile(self._stream)
        except Exception as error:
            self._stream.close()
            # What storage cannot give has a number; what is wrong with the file has none.
            is_away = isinstance(error, OSError) and error.errno is not None
            kind = JobExecutionError if is_away else InputError
            raise kind(f"{path} cannot be read as ORC: {error}.") from error
        names = self._file.schema.names
        missing = [name for name in of.columns or () if name not in names]
        if missing:
            self._stream.close()
            raise InputError(f"{path} has no column {missing[0]!r}; it has {', '.join(names)}.")
        self.stripes: int = self._file.nstripes
        self._columns = of.columns or names
        self._make = record_maker(of.records, self._columns)

    def first(self, start: int) -> int:
        return start

    def block(self, number: int, end: int) -> tuple[list[Any], int | None]:
        batch = self._file.read_stripe(number, columns=self._columns)
        columns: Iterator[list[Any]] = (batch.column(name).to_pylist() for name in self._columns)
        records = self._make(list(zip(*columns, strict=True)))
        return records, number + 1 if number + 1 < end else None

    def close(self) -> None:
        self._stream.close()
