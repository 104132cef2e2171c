"""Lake tables as a source: the rows of a version, and then those that later versions append.

    DeltaSource("/lake/clicks", follow=True)
    IcebergSource({"type": "sql", "uri": ..., "warehouse": ...}, "shop.clicks")

1. The driver takes the newest version of the table. Each of its data files is a split.
2. With `follow` it looks for newer versions; the files that one of them has added are new splits.
   Which version it looked at last is the state of the discovery, in every checkpoint.
3. A reader reads the file as the table was in that version. A position is a number of rows.
"""

from __future__ import annotations

import contextlib
import functools
import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from penstock.connectors.files.formats import RecordMaker, record_maker
from penstock.connectors.lake.rows import arrow, checked_place, library, opened_catalog
from penstock.connectors.source import (
    Boundedness,
    Budget,
    Discovery,
    ReadResult,
    Source,
    SourceReader,
    Split,
)
from penstock.core.errors import InputError, JobExecutionError
from penstock.core.redaction import one_line, without_secrets
from penstock.core.times import to_millis

_POLL_MS: Final = 1_000
_ROWS: Final = 8_192
"""Rows of a file that are decoded at once."""
_SKIPS: Final = 30
"""Every so many looks a Delta table is opened, also where its log has no new file."""
_ACTIONS: Final = ("commitInfo", "add", "remove")
_UNREADABLE: Final = {"deletionVectors", "columnMapping"}
_NOT_READ: Final = (
    "which deltalake does not read. Read it with Spark: "
    'env.from_spark(spark.readStream.format("delta")...).'
)

Records = str | Callable[[dict[str, Any]], Any]


class LakeTable(ABC):
    """A table with versions, each of which is a list of files; picklable.

    The data of a split are the version, the file, and what else `batches` needs.
    """

    shown: str

    def may_be_newer(self, version: Any) -> bool:
        """Whether it is worth a look if there are newer versions: a look costs more."""
        return True

    @abstractmethod
    def look(self) -> tuple[int | None, str]:
        """Returns the newest version, or None if the table is empty, and the id of the table."""

    @abstractmethod
    def files(self, version: int) -> list[list[Any]]:
        """Returns data of splits for the files of a version."""

    @abstractmethod
    def changes(self, after: int, last: int) -> Iterator[tuple[int, str, list[list[Any]] | None]]:
        """Yields later versions, what each did, and data of splits for the files that it added.

        They are None where rows were changed or deleted. A version that only changes files, as
        joining small ones does, adds none.
        """

    @abstractmethod
    def batches(self, data: list[Any]) -> Iterator[Any]:
        """Yields the rows of a split, as record batches of Arrow."""

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """Gives errors of the table's package the name of the table."""
        try:
            yield
        except (InputError, JobExecutionError):
            raise
        except FileNotFoundError as error:
            raise InputError(
                f"a file of {self.shown} is gone: {without_secrets(str(error))}. A version that a "
                "job still reads must not be removed: VACUUM, and the expiry of snapshots, must "
                "keep versions for longer than a job may be away."
            ) from error
        except Exception as error:
            text = one_line(f"{type(error).__name__}: {error}")
            raise JobExecutionError(f"{self.shown} cannot be read: {text}") from error


class LakeSource(Source):
    """Reads a table; made as a `DeltaSource` or an `IcebergSource`."""

    def __init__(
        self, table: LakeTable, records: Records, *, follow: bool | Any, skip_changes: bool
    ) -> None:
        record_maker(records, ())  # A wrong name fails here, in the program.
        self._table = table
        self._records = records
        self._follows = follow is not False
        self._skips = skip_changes
        self._poll_ms = _POLL_MS if isinstance(follow, bool) else to_millis(follow)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self._follows else Boundedness.BOUNDED

    def discover(self, state: Any, now_ms: int) -> Discovery:
        follows = self._follows
        if state is not None and (not follows or 0 <= now_ms - state["polled_ms"] < self._poll_ms):
            return Discovery((), state, complete=not follows)
        known, table = (None, None) if state is None else (state["version"], state["table"])
        if known is not None and not self._table.may_be_newer(known):
            return Discovery((), {**state, "polled_ms": now_ms})
        with self._table.asked():
            latest, now = self._table.look()
            if table not in (None, now):
                raise InputError(
                    f"{self._table.shown} is another table than before: it was created again. Read "
                    "it with a new job, or give the source another uid."
                )
            if latest is None:
                found = []
            elif known is None:
                found = self._table.files(latest)
            else:
                found = [] if known == latest else list(self._appended(known, latest))
        splits = tuple(Split(f"{data[0]}:{data[1]}", data) for data in found)
        version = known if latest is None else latest
        state = {"version": version, "table": now, "polled_ms": now_ms}
        return Discovery(splits, state, complete=not follows)

    def _appended(self, known: int, latest: int) -> Iterator[list[Any]]:
        for version, operation, added in self._table.changes(known, latest):
            if added is not None:
                yield from added
            elif not self._skips:
                raise InputError(
                    f"version {version} of {self._table.shown} has changed or deleted rows "
                    f"({operation}), and a source that follows a table reads what is added. "
                    "skip_changes=True leaves such versions out; or read the table as it is "
                    "now with a new job."
                )

    def create_reader(self) -> SourceReader:
        return _Reader(self._table, self._records)

    def default_name(self) -> str:
        return f"{type(self).__name__.removesuffix('Source')} Source"


class _Reader(SourceReader):
    """Goes on where the last read ended; else it begins the file again and leaves rows out."""

    def __init__(self, table: LakeTable, records: Records) -> None:
        self._table = table
        self._records = records
        self._at: tuple[str, int] | None = None
        self._batches: Iterator[Any] = iter(())
        self._left: Any = None

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        with self._table.asked():
            if self._at != (split.split_id, position):
                self._batches, self._left = self._table.batches(split.data), None
                self._skip(position)
            values: list[Any] = []
            while len(values) < budget.max_records and self._has_rows():
                taken = self._left.slice(0, budget.max_records - len(values))
                self._left = self._left.slice(len(taken))
                values += self._made(taken)
        position += len(values)
        self._at = split.split_id, position
        finished = self._left is None
        return ReadResult(values, position, finished=finished, has_more=not finished)

    def _has_rows(self) -> bool:
        while self._left is None or not len(self._left):
            self._left = next(self._batches, None)
            if self._left is None:
                return False
        return True

    def _skip(self, rows: int) -> None:
        while rows and self._has_rows():
            skipped = min(rows, len(self._left))
            self._left = self._left.slice(skipped)
            rows -= skipped

    def _made(self, batch: Any) -> list[Any]:
        make: RecordMaker = record_maker(self._records, batch.schema.names)
        return make(list(zip(*(column.to_pylist() for column in batch.columns), strict=True)))

    def close(self) -> None:
        self._at, self._batches, self._left = None, iter(()), None


class DeltaSource(LakeSource):
    """Reads a Delta table.

    Args:
        table: Path or address of the table.
        records: `row`, `dict`, `tuple`, or a function that takes a dict.
        follow: Goes on with the rows that later versions append, without end. It looks for them
            every second, or as often as a `timedelta` or a number of milliseconds says.
        skip_changes: Leaves out versions that change or delete rows, instead of failing.
        storage_options: Settings of the storage, as the package deltalake takes them.
    """

    def __init__(
        self,
        table: str,
        records: Records = "row",
        *,
        follow: bool | Any = False,
        skip_changes: bool = False,
        storage_options: dict[str, str] | None = None,
    ) -> None:
        of = _DeltaTable(str(table), storage_options)
        super().__init__(of, records, follow=follow, skip_changes=skip_changes)


class _DeltaTable(LakeTable):
    def __init__(self, path: str, storage_options: dict[str, str] | None) -> None:
        library("deltalake", "delta")
        self._path = path
        self._options = storage_options
        self.shown = f"the Delta table {without_secrets(path)}"
        self._fragments: tuple[int, dict[str, Any], Any] | None = None
        self._storage: Any = None
        self._skips_left = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fragments": None, "_storage": None, "_skips_left": 0}

    def _opened(self, version: int | None = None) -> Any:
        delta = library("deltalake", "delta")
        return delta.DeltaTable(self._path, version=version, storage_options=self._options)

    def _files_below(self) -> Any:
        """Returns the table's directory as a file system of Arrow's."""
        if self._storage is None:
            handler = library("deltalake.fs", "delta").DeltaStorageHandler
            files: Any = library("pyarrow.fs", "delta")
            self._storage = files.PyFileSystem(handler(self._path, self._options))
        return self._storage

    def may_be_newer(self, version: int) -> bool:
        # Now and then the table is opened in any case, which lists its files: it may be another.
        if not self._skips_left:
            return True
        self._skips_left -= 1
        with self.asked():
            found = self._files_below().get_file_info(_log_of(version + 1))
        return str(found.type.name) != "NotFound"

    def look(self) -> tuple[int, str]:
        self._skips_left = _SKIPS
        table = self._opened()
        return int(table.version()), str(table.metadata().id)

    def files(self, version: int) -> list[list[Any]]:
        return [[version, file] for file in sorted(self._parts(version)[0])]

    def _parts(self, version: int) -> tuple[dict[str, Any], Any]:
        """Returns the files of a version, as parts of a dataset of Arrow's, and its schema."""
        if self._fragments is None or self._fragments[0] != version:
            dataset = self._opened(version).to_pyarrow_dataset()
            parts = {part.path: part for part in dataset.get_fragments()}
            self._fragments = version, parts, dataset.schema
        return self._fragments[1:]

    def changes(self, after: int, last: int) -> Iterator[tuple[int, str, list[list[Any]] | None]]:
        """Reads the log: a table may have many more files than a version adds."""
        table = self._opened(last)
        features = {*(table.protocol().reader_features or ())} & _UNREADABLE
        if features:
            raise InputError(f"{self.shown} has {', '.join(sorted(features))}, {_NOT_READ}")
        schema = table.schema().to_json()
        for version in range(after + 1, last + 1):
            with self._files_below().open_input_stream(_log_of(version)) as stream:
                actions = [json.loads(line) for line in stream.read().splitlines()]
            named = {key: [each[key] for each in actions if key in each] for key in _ACTIONS}
            operation = "".join(each.get("operation") or "" for each in named["commitInfo"][:1])
            added = [each for each in named["add"] if each["dataChange"]]
            changed = any(each["dataChange"] for each in named["remove"])
            yield (
                version,
                operation or "unknown",
                None
                if changed
                else [
                    [version, unquote(each["path"]), each.get("partitionValues") or {}, schema]
                    for each in added
                ],
            )

    def batches(self, data: list[Any]) -> Iterator[Any]:
        version, file, *more = data
        if more:
            part, schema = self._part(file, *more)
        else:
            parts, schema = self._parts(version)
            if file not in parts:
                raise FileNotFoundError(f"{file} of version {version}")
            part = parts[file]
        scanner = part.scanner(schema=schema, batch_size=_ROWS, use_threads=False)
        return iter(scanner.to_batches())

    def _part(self, file: str, partition: dict[str, str | None], schema: str) -> tuple[Any, Any]:
        datasets: Any = library("pyarrow.dataset", "delta")
        columns = arrow().schema(library("deltalake", "delta").Schema.from_json(schema).to_arrow())
        conditions = [
            datasets.field(name) == _partition_value(text, columns.field(name).type)
            if text  # Delta has no empty text in a partition.
            else datasets.field(name).is_null()
            for name, text in partition.items()
        ]
        condition = functools.reduce(operator.and_, conditions) if conditions else None
        parquet = datasets.ParquetFileFormat()
        return parquet.make_fragment(file, self._files_below(), condition), columns


def _log_of(version: int) -> str:
    return f"_delta_log/{version:020}.json"


def _partition_value(text: str, kind: Any) -> Any:
    """Returns the value that a log has as text; times are in UTC."""
    types = arrow().types
    if types.is_timestamp(kind):
        return arrow().scalar(text.removesuffix("Z")).cast(arrow().timestamp("us")).cast(kind)
    return arrow().scalar(text).cast(kind)


class IcebergSource(LakeSource):
    """Reads an Iceberg table.

    Args:
        catalog: Settings of the catalog, as `pyiceberg.catalog.load_catalog` takes them.
        table: `namespace.table`.
        records: As for `DeltaSource`.
        follow: As for `DeltaSource`.
        skip_changes: As for `DeltaSource`.
    """

    def __init__(
        self,
        catalog: Mapping[str, str],
        table: str,
        records: Records = "row",
        *,
        follow: bool | Any = False,
        skip_changes: bool = False,
    ) -> None:
        checked_place(catalog, table, "an IcebergSource")
        of = _IcebergTable(dict(catalog), table)
        super().__init__(of, records, follow=follow, skip_changes=skip_changes)


class _IcebergTable(LakeTable):
    """A version is the id of a snapshot."""

    def __init__(self, catalog: dict[str, str], table: str) -> None:
        self._settings = catalog
        self._name = table
        self.shown = f"the Iceberg table '{table}'"
        self._catalog: Any = None
        self._planned: tuple[tuple[int, bool], dict[str, Any], Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_catalog": None, "_planned": None}

    def _opened(self) -> Any:
        if self._catalog is None:
            self._catalog = opened_catalog(self._settings)
        return self._catalog.load_table(self._name)

    def look(self) -> tuple[int | None, str]:
        table = self._opened()
        snapshot = table.current_snapshot()
        version = None if snapshot is None else int(snapshot.snapshot_id)
        return version, str(table.metadata.table_uuid)

    def files(self, version: int) -> list[list[Any]]:
        return [[version, file] for file in sorted(self._tasks(version)[0])]

    def _tasks(self, version: int, *, only_added: bool = False) -> tuple[dict[str, Any], Any, Any]:
        """Returns what there is to read in a snapshot by file, its schema, and the table."""
        key = version, only_added
        if self._planned is None or self._planned[0] != key:
            table = self._opened()
            if table.snapshot_by_id(version) is None:
                raise FileNotFoundError(f"snapshot {version} is not there any more")
            scan = table.scan(snapshot_id=version)
            found = self._added(table, version) if only_added else scan.plan_files()
            tasks = {task.file.file_path: task for task in found}
            self._planned = key, tasks, scan.projection(), table
        return self._planned[1:]

    def _added(self, table: Any, version: int) -> Iterator[Any]:
        """Yields the files that a snapshot appended: a table may have many more."""
        task: Any = library("pyiceberg.table", "iceberg").FileScanTask
        added: Any = library("pyiceberg.manifest", "iceberg").ManifestEntryStatus.ADDED
        for manifest in table.snapshot_by_id(version).manifests(table.io):
            if manifest.added_snapshot_id == version:
                for entry in manifest.fetch_manifest_entry(table.io):
                    if entry.status == added and entry.snapshot_id == version:
                        yield task(entry.data_file)

    def changes(self, after: int, last: int) -> Iterator[tuple[int, str, list[list[Any]] | None]]:
        table, found = self._opened(), []
        at: int | None = last
        while at is not None and at != after:
            snapshot = table.snapshot_by_id(at)
            if snapshot is None:
                break
            found.append((at, snapshot.summary.operation.value if snapshot.summary else "unknown"))
            at = snapshot.parent_snapshot_id
        if at != after:
            raise FileNotFoundError(f"snapshot {after} is none that led to the present one")
        for version, operation in reversed(found):
            files: list[list[Any]] | None = [] if operation == "replace" else None
            # Others may delete rows in files that stay, by delete files.
            if operation == "append":
                tasks = self._tasks(version, only_added=True)[0]
                files = [[version, file, "added"] for file in sorted(tasks)]
            yield version, operation, files

    def batches(self, data: list[Any]) -> Iterator[Any]:
        version, file, *more = data
        tasks, schema, table = self._tasks(version, only_added=bool(more))
        reading: Any = library("pyiceberg.io.pyarrow", "iceberg")
        everything = library("pyiceberg.expressions", "iceberg").AlwaysTrue()
        scan = reading.ArrowScan(table.metadata, table.io, schema, everything)
        batches: Iterator[Any] = scan.to_record_batches([tasks[file]])
        return batches
