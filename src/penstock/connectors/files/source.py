"""The file source: which files, in which format, once or watched.

1. The driver lists the paths. Files that were not seen before are cut into splits: ranges of about
   one block, so that no epoch depends on how large a file is. Compressed files are one split.
2. What was seen is the discovery's state, plain data in every checkpoint: after a restore no file
   is read twice and none is left out. A file is known by its path; what replaces a file that was
   read is not read again.
3. Readers fail when a file is not what it was when it was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.files import parquet_format as _parquet  # noqa: F401 - for BulkFormat
from penstock.connectors.files.csv_columns import ColumnRangeReader
from penstock.connectors.files.csv_format import CsvFormat
from penstock.connectors.files.formats import BulkFormat, StreamFormat
from penstock.connectors.files.inputs import PLAIN, InputFile, Inputs, normalize
from penstock.connectors.files.range_reader import RangeReader, is_compressed, open_window
from penstock.connectors.source import Boundedness, Discovery, Source, SourceReader, Split
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.files.urls import storage_settings

if TYPE_CHECKING:
    from penstock.core.records import ColumnName

CUT_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileEnumeratorProvider:
    """How files are cut into splits.

    Attributes:
        splittable: Whether a large file becomes several splits.
    """

    splittable: bool

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Large files become several splits, read in parallel; compressed ones do not."""
        return FileEnumeratorProvider(splittable=True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Each file is one split, read by one subtask in order."""
        return FileEnumeratorProvider(splittable=False)


@dataclass(frozen=True, slots=True)
class FileSplitAssignerProvider:
    """Which subtask reads which split; subtasks always take the next split when they are free."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Accepted as a hint: every subtask reaches every file, so no split is local to one."""
        return FileSplitAssignerProvider()


@dataclass(frozen=True, slots=True)
class _Settings:
    paths: tuple[str, ...]
    record_format: StreamFormat | BulkFormat
    interval_ms: int | None = None
    cut_bytes: int = CUT_BYTES
    splittable: bool | None = None
    recursive: bool = True
    parallelism: int = 1
    inputs: Inputs = PLAIN


class FileSourceBuilder:
    """Builds a `FileSource`."""

    def __init__(self, record_format: StreamFormat | BulkFormat, paths: Iterable[str]) -> None:
        normalized = tuple(dict.fromkeys(normalize(path) for path in paths))
        if not normalized:
            raise ProgramError("a FileSource needs at least one path.")
        for path in normalized:
            if "://" in path:
                PLAIN.locate(path)  # A scheme without its package fails here, in the program.
        self._settings = _Settings(normalized, record_format)

    def monitor_continuously(self, discovery_interval: Any) -> FileSourceBuilder:
        """Watches the paths for new files, without end.

        Args:
            discovery_interval: A `Duration`, a `timedelta` or milliseconds.
        """
        interval_ms = _milliseconds(discovery_interval)
        if interval_ms <= 0:
            raise ProgramError(f"the discovery interval is {interval_ms} ms; it must be above 0.")
        self._settings = replace(self._settings, interval_ms=interval_ms)
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Reads what is there when the job starts, then ends; the default."""
        self._settings = replace(self._settings, interval_ms=None)
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Says whether large files are cut."""
        self._settings = replace(self._settings, splittable=file_enumerator.splittable)
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accepts the only assigner there is."""
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise ProgramError(
                f"{split_assigner!r} is no split assigner; use "
                "FileSplitAssignerProvider.locality_aware_split_assigner()."
            )
        return self

    def set_recursive(self, recursive: bool) -> FileSourceBuilder:
        """Says whether directories inside the paths are read as well; the default is yes."""
        self._settings = replace(self._settings, recursive=recursive)
        return self

    def set_cut_bytes(self, cut_bytes: int) -> FileSourceBuilder:
        """Sets from which size on a file is cut, and how large its ranges are; 16 MiB if unset.

        Files are then cut however many there are, unless the enumerator says otherwise.
        """
        if cut_bytes < 1:
            raise ProgramError(f"cut_bytes is {cut_bytes}; it must be 1 or more.")
        splittable = self._settings.splittable is not False
        self._settings = replace(self._settings, cut_bytes=cut_bytes, splittable=splittable)
        return self

    def build(self) -> FileSource:
        """Returns the source."""
        return FileSource(self._settings)


class FileSource(Source):
    """Reads files; made by `for_record_stream_format` or `for_bulk_file_format`."""

    _default_name = "File Source"

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Begins a source of text, CSV or JSON lines; files, directories, patterns or URLs."""
        if not isinstance(stream_format, StreamFormat):
            raise ProgramError(
                f"{stream_format!r} is no StreamFormat; use for example "
                "StreamFormat.text_line_format()."
            )
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Begins a source of Parquet files; files, directories, patterns or URLs."""
        if not isinstance(bulk_format, BulkFormat):
            raise ProgramError(
                f"{bulk_format!r} is no BulkFormat; use for example BulkFormat.parquet_format()."
            )
        return FileSourceBuilder(bulk_format, paths)

    @property
    def boundedness(self) -> Boundedness:
        bounded = self._settings.interval_ms is None
        return Boundedness.BOUNDED if bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def with_parallelism(self, parallelism: int) -> Source:
        return FileSource(replace(self._settings, parallelism=parallelism))

    def with_settings(self, settings: Mapping[str, str]) -> Source:
        inputs = Inputs(storage_settings(settings))
        return FileSource(replace(self._settings, inputs=inputs))

    def discover(self, state: Any, now_ms: int) -> Discovery:
        settings = self._settings
        interval_ms = settings.interval_ms
        if state is not None:
            if interval_ms is None:
                return Discovery((), state, complete=True)
            if 0 <= now_ms - state["polled_ms"] < interval_ms:
                return Discovery((), state)
        seen: dict[str, int] = {} if state is None else state["seen"]
        try:
            files = [file for file in self._list() if file.path not in seen]
        except InputError as error:
            if state is None:
                raise
            # A path that was there may come back, with the storage that it is on.
            raise JobExecutionError(str(error)) from error
        if interval_ms is not None:
            files.sort(key=lambda file: (str(file.version), file.path))
        if files and interval_ms is not None:
            seen = {**seen, **{file.path: file.size_bytes for file in files}}
        whole = not self._cuts_files(len(files))
        splits = tuple(split for file in files for split in self._cut(file, whole=whole))
        return Discovery(splits, {"seen": seen, "polled_ms": now_ms}, complete=interval_ms is None)

    def _list(self) -> list[InputFile]:
        settings = self._settings
        found: dict[str, InputFile] = {}
        for path in settings.paths:
            files = settings.inputs.find(
                path,
                recursive=settings.recursive,
                may_be_missing=settings.interval_ms is not None,
            )
            found.update((file.path, file) for file in files)
        return list(found.values())

    def _cuts_files(self, count: int) -> bool:
        """Whether large files become several splits, unless the program has said so.

        Lines usually come in the order of their times. Files side by side, one per subtask, keep
        watermarks together as in Flink, where a text file is one split; ranges of one file do that
        too, but ranges of many would let one file's time run ahead of the next one's. So ranges are
        for inputs of fewer files than subtasks.
        """
        settings = self._settings
        if settings.splittable is not None:
            return settings.splittable
        return isinstance(settings.record_format, BulkFormat) or count < settings.parallelism

    def _cut(self, file: InputFile, *, whole: bool) -> list[Split]:
        settings = self._settings
        record_format = settings.record_format
        cut_bytes = max(1, file.size_bytes) if whole else settings.cut_bytes
        if file.size_bytes == 0:
            return []
        if isinstance(record_format, BulkFormat):
            return record_format.splits(file, cut_bytes, settings.inputs)
        if is_compressed(file.path) or record_format.needs_transcoding:
            return [_range(file, 0, None)]
        if file.size_bytes <= cut_bytes:
            return [_range(file, 0, file.size_bytes)]
        window = open_window(record_format, file.path, settings.inputs)
        try:
            cuts = record_format.cuts(window, file, cut_bytes)
        finally:
            window.close()
        ends = [*cuts[1:], file.size_bytes]
        return [_range(file, start, end) for start, end in zip(cuts, ends, strict=True)]

    def with_columns(self, columns: tuple[ColumnName, ...]) -> Source:
        record_format = self._settings.record_format.with_columns(columns)
        return FileSource(replace(self._settings, record_format=record_format))

    def create_reader(self) -> SourceReader:
        record_format, inputs = self._settings.record_format, self._settings.inputs
        if isinstance(record_format, BulkFormat):
            return record_format.create_reader(inputs)
        if isinstance(record_format, CsvFormat) and record_format.arrow is not None:
            return ColumnRangeReader(record_format, inputs)
        return RangeReader(record_format, inputs)


def _range(file: InputFile, start: int, end: int | None) -> Split:
    return file.split(str(start), start, end=end)


def _milliseconds(duration: Any) -> int:
    """Takes what programs use for a span of time."""
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    for name in ("to_milliseconds", "to_millis"):
        if hasattr(duration, name):
            return int(getattr(duration, name)())
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        raise ProgramError(
            f"{duration!r} is no duration; give a Duration, a timedelta or milliseconds."
        )
    return int(duration)
