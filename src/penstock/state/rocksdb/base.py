"""The immutable base of a `rocksdb` version: a RocksDB directory that is opened as a private clone.

1. `attach` remembers the files of a base. Nothing is opened before the first read, so a subtask
   that only writes, or only replays, never pays for it.
2. Reading opens a clone: hard links to the SST files, copies of the few others, read-only. Each
   file is verified by length and checksum first, because RocksDB opens damaged files silently.
3. `adding` opens the clone for writing and adds sorted SST files; `publishing` takes RocksDB's own
   checkpoint of the result. SST files that were there before keep their handles; new ones are
   hashed once. Both work in steps, so that a fold can spread over epochs.
4. `compact` merges a stretch of the base (`fold`) in a thread; the next fold publishes the result.

The clone belongs to this object; files of others are only linked to and never changed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import resource
import shutil
import threading
import weakref
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ConfigurationError, install_extra
from penstock.state.rocksdb.fold import STEP_ROWS, stretches_to_compact
from penstock.state.rocksdb.rows import end_of_prefix

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from penstock.core.handles import FileHandle
    from penstock.files.area import FileArea


@dataclass(frozen=True, slots=True)
class RocksLimits:
    """How much of the state is in memory.

    Attributes:
        memory_bytes: Estimated bytes of entries in memory, outside the running epoch. Half of them
            may be changes that wait for a fold.
        replay_bytes: Deltas together above this are folded, since a restore replays them.
        merge_bytes: Deltas together up to this are merged instead, once they are many.
        timers_in_memory: Timers of each domain in memory after a fold.
        chunk_elements: Most elements in one row of a list.
        cached_list_bytes: Longer lists are read again each time, since one of them could fill the
            memory.
        whole_map_entries: Maps up to this size stay in memory as a whole once they were iterated.
        min_expiry_rows: Rows that each fold looks at for expiry, at least.
        fold_slice_ms: How long a commit works on a fold, at most but for `fold_pace`.
        fold_pace: Rows that a commit folds for each change that it writes, at least, so that a fold
            ends before the next is due: each row is encoded first and written later.
    """

    memory_bytes: int = 384 << 20
    replay_bytes: int = 32 << 20
    merge_bytes: int = 1 << 20
    timers_in_memory: int = 500_000
    chunk_elements: int = 1000
    cached_list_bytes: int = 1 << 20
    whole_map_entries: int = 64
    min_expiry_rows: int = 10_000
    fold_slice_ms: float = 50
    fold_pace: float = 4


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """Sizes of the database; all states of a worker share one block cache of each size.

    Attributes:
        block_cache_bytes: Blocks, indexes and filters of SST files in memory.
        block_size_bytes: Size of a block.
        target_file_size_bytes: Size at which compaction starts another SST file.
        stretches: Parts of the range of keys that are compacted one by one.
        log_bytes: Size at which the log of the database, which nobody reads, is emptied.
        manifest_bytes: Size at which the database writes a new list of its files.
    """

    block_cache_bytes: int = 64 << 20
    block_size_bytes: int = 8 * 1024
    target_file_size_bytes: int = 32 << 20
    stretches: int = 16
    log_bytes: int = 1 << 20
    manifest_bytes: int = 256 << 10


try:
    import rocksdict
except ImportError:  # pragma: no cover - exercised by a test that hides the module
    rocksdict = None  # type: ignore[assignment]

_DATABASE_FILE: Final = re.compile(r"\d+\.sst|MANIFEST-\d+|CURRENT")
_MEBIBYTE: Final = 1 << 20
_LEVELS: Final = 7
_ROWS_PER_MEBIBYTE: Final = 512
"""As many rows are written as it takes to hash a mebibyte, about."""


def require_rocksdict() -> None:
    """Raises a clear error where the optional library is missing."""
    if rocksdict is None:
        raise ConfigurationError(
            "state.backend.type is 'rocksdb', which needs the package rocksdict on every worker. "
            f"Install it with: {install_extra('rocksdb')}, or use 'hashmap'."
        )


_MOST_OPEN_FILES: Final = 1 << 16


@functools.cache
def _allow_many_open_files() -> None:
    """A database keeps its files open, some hundred of each state, and the default limit is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_block_caches: dict[int, Any] = {}


def _options(settings: RocksSettings) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    cache = _block_caches.get(settings.block_cache_bytes)
    if cache is None:
        cache = rocksdict.Cache(settings.block_cache_bytes)
        _block_caches[settings.block_cache_bytes] = cache
    blocks = rocksdict.BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_block_size(settings.block_size_bytes)
    blocks.set_bloom_filter(10, False)
    # Without this, indexes and filters of every file would stay in memory.
    # In parts, because one filter of a large file does not fit into a shard of the cache.
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_pin_top_level_index_and_filter(True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    options.set_target_file_size_base(settings.target_file_size_bytes)
    options.set_write_buffer_size(4 * _MEBIBYTE)
    options.set_max_background_jobs(2)
    options.set_disable_auto_compactions(True)
    options.set_num_levels(_LEVELS)
    # One level below the newest files, at any size.
    options.set_max_bytes_for_level_base(1 << 40)
    options.set_keep_log_file_num(1)
    # It grows with each fold of a worker that lives for months, and each base has a copy of it.
    options.set_max_manifest_file_size(settings.manifest_bytes)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


class RocksBase:
    """One base and its private clone.

    Attributes:
        folds: Number of folds that made the base; chunks of lists are numbered by it.
    """

    def __init__(self, area: FileArea, settings: RocksSettings, cuts: Sequence[bytes] = ()) -> None:
        require_rocksdict()
        self._area = area
        self._settings = settings
        self._cuts = cuts
        self.folds = 0
        self._handles: dict[str, FileHandle] = {}
        self._clone: _Clone | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no base, so that every read finds nothing."""
        return not self._handles and self._clone is None

    def attach(self, handles: dict[str, FileHandle], folds: int) -> None:
        """Becomes another base, of files by their names for RocksDB."""
        self.close()
        self.folds = folds
        self._handles = handles

    def get(self, row: bytes) -> bytes | None:
        """Returns the value of a row."""
        if self.is_empty:
            return None
        found: bytes | None = self._open().database.get(row)
        return found

    def get_many(self, rows: list[bytes]) -> list[bytes | None]:
        """Returns the values of rows, best given in order."""
        if self.is_empty:
            return [None] * len(rows)
        wanted: Any = rows
        found: Any = self._open().database.get(wanted)
        return found  # type: ignore[no-any-return]

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields the rows from `start` up to, without, `end`."""
        if self.is_empty:
            return
        cursor = self._open().database.iter()
        cursor.seek(start)
        while cursor.valid():
            row = cursor.key()
            if row >= end:
                return
            yield row, cursor.value()
            cursor.next()
        cursor.status()

    def scan_prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields the rows whose key starts with `prefix`."""
        return self.scan(prefix, end_of_prefix(prefix))

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Fills an empty base with rows, strictly rising by key; `publishing` makes files of it."""
        for _ in self.adding(rows):
            pass

    def open_for_writing(self) -> None:
        """Opens the clone as the steps of a fold need it, so that no read opens it differently."""
        self._open(writable=True)

    def adding(self, rows: Iterable[tuple[bytes, bytes | None]]) -> Generator[int, None, None]:
        """Adds rows, strictly rising by key (None deletes); they are there once all steps are."""
        return self._open(writable=True).adding(rows)

    def publishing(self, version_id: str) -> Generator[int, None, dict[str, FileHandle]]:
        """Returns the files of the base as it is at the first step, by their names for RocksDB."""
        directory = self._open(writable=True).snapshot()
        handles: dict[str, FileHandle] = {}
        try:
            digests: dict[Path, str] = {}
            # Handles travel in each epoch, and a fold may bring a small file for each stretch.
            size_bytes = sum(path.stat().st_size for path in directory.glob("*.sst"))
            is_small = size_bytes <= self._area.inline_threshold_bytes
            for path in sorted(directory.iterdir()):
                if not _DATABASE_FILE.fullmatch(path.name):
                    continue
                if path.suffix == ".sst" and path.name in self._handles:
                    handles[path.name] = self._handles[path.name]
                else:
                    digests[path] = yield from _hashing(path)
            # All in the last step: until a version names them, they pass for what a failed task
            # left behind, and would be deleted.
            for path, digest in digests.items():
                handles[path.name] = self._area.adopt(
                    path,
                    f"{version_id}-{path.name}",
                    digest,
                    may_be_inline=is_small or path.suffix != ".sst",
                )
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        self._handles = handles
        return handles

    def compact(self) -> None:
        """Merges what lies in many layers, as far as that is due, beside everything else."""
        self._open(writable=True).compact()

    def close(self) -> None:
        """Closes the clone and removes its directory."""
        clone, self._clone = self._clone, None
        if clone is not None:
            clone.close()

    def _open(self, *, writable: bool = False) -> _Clone:
        clone = self._clone
        if clone is not None and (clone.is_writable or not writable):
            return clone
        if clone is None:
            for handle in self._handles.values():
                self._area.verify(handle)
            directory = self._area.private_directory("rocksdb")
            for name, handle in self._handles.items():
                if name.endswith(".sst"):
                    self._area.link_into(handle, directory, name)
                else:
                    # RocksDB writes to these, so a link would change the original.
                    (directory / name).write_bytes(self._area.read(handle))
        else:
            directory = clone.release()
        self._clone = _Clone(directory, self._settings, self._cuts, is_writable=writable)
        return self._clone


class _Clone:
    """An open database in a directory of its own, which goes when the object does."""

    def __init__(
        self, directory: Path, settings: RocksSettings, cuts: Sequence[bytes], *, is_writable: bool
    ) -> None:
        self.is_writable = is_writable
        self._directory = directory
        self._settings = settings
        self._cuts = cuts
        _allow_many_open_files()
        self._options = _options(settings)
        access = (
            rocksdict.AccessType.read_write()
            if is_writable
            else rocksdict.AccessType.read_only(False)
        )
        self.database = rocksdict.Rdict(str(directory), self._options, access_type=access)
        self._compaction = _Compaction(self.database)
        if is_writable:
            # The stubs call the property a method.
            writing: Any = rocksdict.WriteOptions()
            writing.disable_wal = True
            self.database.set_write_options(writing)
        self._cleaner = weakref.finalize(self, _discard, self._compaction, directory)

    def adding(self, rows: Iterable[tuple[bytes, bytes | None]]) -> Generator[int, None, None]:
        paths: list[str] = []
        writer: Any = None
        cut = None
        try:
            for count, (row, data) in enumerate(rows, 1):
                if cut is not None and row >= cut and writer is not None:
                    writer.finish()
                    writer = None
                if writer is None:
                    paths.append(str(self._directory / f"added-{len(paths)}.sst"))
                    writer = rocksdict.SstFileWriter(self._options)
                    writer.open(paths[-1])
                    cut = self._next_cut(row)
                if data is None:
                    del writer[row]
                else:
                    writer[row] = data
                # Asking for the size at each row would cost as much as writing it.
                if count % STEP_ROWS == 0:
                    if writer.file_size() >= self._settings.target_file_size_bytes:
                        writer.finish()
                        writer = None
                    yield STEP_ROWS
            if writer is not None:
                writer.finish()
                yield STEP_ROWS
            if paths:
                ingest = rocksdict.IngestExternalFileOptions()
                ingest.set_move_files(True)
                self.database.ingest_external_file(paths, ingest)
        finally:
            for path in paths:
                Path(path).unlink(missing_ok=True)

    def _next_cut(self, row: bytes) -> bytes | None:
        number = bisect_right(self._cuts, row)
        return self._cuts[number] if number < len(self._cuts) else None

    def compact(self) -> None:
        self._empty_log()
        if self._compaction.is_running:
            return
        files = [
            (bisect_right(self._cuts, file["start_key"]), file["level"] < _LEVELS - 1, file["size"])
            for file in self.database.live_files()
        ]
        cuts = [None, *self._cuts, None]
        chosen = stretches_to_compact(files)
        self._compaction.start([(cuts[number], cuts[number + 1]) for number in chosen])

    def _empty_log(self) -> None:
        """Frees the space of a long log; RocksDB itself would crash where it cannot make one."""
        log = self._directory / "LOG"
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_blocks * 512 > self._settings.log_bytes:
                os.truncate(log, 0)

    def snapshot(self) -> Path:
        """Returns a new directory with links to the files that make the database now."""
        target = self._directory.with_name(self._directory.name + "-files")
        rocksdict.Checkpoint(self.database).create_checkpoint(str(target))
        return target

    def release(self) -> Path:
        """Closes the database and gives its directory away."""
        self._cleaner.detach()
        self._compaction.close()
        return self._directory

    def close(self) -> None:
        self._cleaner()


def _hashing(path: Path) -> Generator[int, None, str]:
    """Returns the SHA-256 of a file, a mebibyte at a step."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_MEBIBYTE):
            digest.update(chunk)
            yield _ROWS_PER_MEBIBYTE
    return digest.hexdigest()


class _Compaction:
    """Merges stretches of a database in a thread of its own.

    RocksDB tells the next fold of an error: it takes no files in any more.
    """

    def __init__(self, database: Any) -> None:
        self._database = database
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, stretches: list[tuple[bytes | None, bytes | None]]) -> None:
        if stretches:
            self._thread = threading.Thread(
                target=self._run, args=(stretches,), name="penstock-compaction", daemon=True
            )
            self._thread.start()

    def _run(self, stretches: list[tuple[bytes | None, bytes | None]]) -> None:
        for start, end in stretches:
            self._database.compact_range(start, end)

    def close(self) -> None:
        """Ends it unfinished, and closes the database."""
        if self._thread is not None:
            if self._thread.is_alive():
                self._database.cancel_all_background(wait=True)
            self._thread.join()
        # It flushes first, which it refuses once it was stopped like this, or after an error. All
        # that was added is in files.
        with contextlib.suppress(Exception):
            self._database.close()


def _discard(compaction: _Compaction, directory: Path) -> None:
    compaction.close()
    shutil.rmtree(directory, ignore_errors=True)
