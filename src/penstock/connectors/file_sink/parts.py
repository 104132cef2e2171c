"""Pending files of a file sink, hidden until the part file that they make is visible.

A pending file is called `.<part>.<attempt>.inprogress`. On file systems with directories it lies in
that of its bucket, and a rename makes it visible at once and as a whole. On object stores it is an
object of its own below `.pending/`, so that one rule of the bucket can remove what nothing owes any
more, and a copy inside the server makes it visible. The name of the part holds a digest of job,
sink and attempt: nothing that another attempt or another job wrote is ever overwritten.
"""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.connectors.file_sink.encoders import OutputFormat, PendingBytes, PendingFile
from penstock.connectors.file_sink.rolling import BucketAssigner, PartInfo, checked_bucket
from penstock.connectors.sink import CommitContext, Committer, SinkWriter, WriterContext
from penstock.connectors.user_sink import SinkContext
from penstock.core.errors import JobExecutionError
from penstock.core.times import NO_TIMESTAMP
from penstock.files.contract import Content
from penstock.files.errors import FilesError, ObjectMissingError
from penstock.files.urls import shared_storages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.connectors.file_sink.rolling import OutputFileConfig, RollingPolicy

PENDING_SUFFIX: Final = ".inprogress"
_APART: Final = ".pending"
"""Where pending files are on object stores."""
_REQUESTS: Final = 16
"""Requests to an object store at once; each takes tens of milliseconds."""
_SWEEP_MS: Final = 60_000

Item = TypeVar("Item")
Result = TypeVar("Result")
Entry = dict[str, Any]
"""A committable: one pending file."""


@dataclass(frozen=True, slots=True)
class FileSinkSettings:
    """What writer and committer share."""

    base_path: str  # Absolute directory, or URL.
    output_format: OutputFormat  # How records become bytes.
    assigner: BucketAssigner  # Which bucket a record belongs to.
    policy: RollingPolicy  # When parts are closed.
    names: OutputFileConfig  # How parts are called.
    storage: tuple[tuple[str, str], ...] = ()  # Settings of the storage that it is on.

    def __repr__(self) -> str:
        return f"FileSinkSettings({self.base_path!r})"  # Others may be secret.


def sink_digest(job_id: str, uid: str) -> str:
    """Returns what all file names of a sink contain."""
    return hashlib.sha256(f"{job_id}/{uid}".encode()).hexdigest()[:8]


class SinkDirectory:
    """The directory that a sink writes to: where visible and hidden files are in it."""

    def __init__(self, base: str, settings: tuple[tuple[str, str], ...]) -> None:
        self.storage = shared_storages(settings).at(base).pinned()
        self.has_directories = self.storage.capabilities.directories
        self._hidden = "" if self.has_directories else _APART

    def part(self, entry: Entry) -> str:
        """Returns the key of the part file that begins with a pending file."""
        return _joined(entry["bucket"], entry["part"])

    def hidden(self, entry: Entry, kind: str = "") -> str:
        """Returns the key of a pending file, or of another hidden file of its part."""
        name = f".{entry['part']}.{kind}" if kind else entry["pending"]
        return _joined(self._hidden, entry["bucket"], name)

    def hidden_below(self, bucket: str) -> str:
        """Returns the directory of hidden files of a bucket."""
        return _joined(self._hidden, bucket)

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Calls a function for every item, on object stores several at once."""
        items = list(items)
        if self.has_directories or len(items) < 2:
            return list(map(function, items))
        with ThreadPoolExecutor(min(_REQUESTS, len(items))) as pool:
            return list(pool.map(function, items))


def _joined(*parts: str) -> str:
    return "/".join(filter(None, parts))


class FileSinkWriter(SinkWriter):
    """Writes the pending files of one subtask and epoch."""

    def __init__(self, settings: FileSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._context = context
        self._output = SinkDirectory(settings.base_path, settings.storage)
        self._spool = PendingBytes(context.scratch_dir)
        self._record = SinkContext(context.now_ms)
        self._open: dict[str, tuple[PendingFile, Entry]] = {}
        self._complete: list[tuple[PendingFile, Entry]] = []
        self._count = 0
        self._is_prepared = False

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        if not values:
            return
        bucket = self._settings.assigner.bucket_of_epoch(self._context.now_ms)
        if bucket is not None:
            self._write(bucket, values)
            return
        self._record._watermark = watermark
        for chosen, records in self._by_bucket(values, timestamps).items():
            self._write(chosen, records)

    def _by_bucket(self, values: list[Any], timestamps: list[int] | None) -> dict[str, list[Any]]:
        record, assign = self._record, self._settings.assigner.get_bucket_id
        grouped: dict[str, list[Any]] = {}
        for at, value in enumerate(values):
            record._timestamp = NO_TIMESTAMP if timestamps is None else timestamps[at]
            bucket = assign(value, record)
            if bucket in grouped:
                grouped[bucket].append(value)
            else:
                grouped[bucket] = [value]
        return grouped

    def _write(self, bucket: str, values: list[Any]) -> None:
        if bucket not in self._open:
            self._open[bucket] = self._begin(checked_bucket(bucket))
        file, committable = self._open[bucket]
        file.write(values)
        committable["size"] = file.size()
        if committable["size"] >= self._settings.policy.part_size:
            self._complete.append(self._open.pop(bucket))

    def _begin(self, bucket: str) -> tuple[PendingFile, Entry]:
        context, names = self._context, self._settings.names
        number, self._count = self._count, self._count + 1
        attempt = hashlib.sha256(f"{context.attempt_id}/{number}".encode()).hexdigest()[:8]
        sink = sink_digest(context.job_id, context.uid)
        digest = sink + attempt
        part = (
            f"{names.part_prefix}-{context.subtask}-{context.epoch:06d}-{digest}{names.part_suffix}"
        )
        committable = {
            "sink": sink,
            "base": self._settings.base_path,
            "bucket": bucket,
            "part": part,
            "pending": f".{part}.{context.attempt_id}{PENDING_SUFFIX}",
            "subtask": context.subtask,
            "epoch": context.epoch,
            "number": number,
            "size": 0,
            "written_ms": context.now_ms,
        }
        try:
            self._output.storage.make_directory(self._output.hidden_below(bucket))
        except FilesError as error:
            place = self._output.storage.url_of(bucket)
            raise JobExecutionError(
                f"the file sink cannot make the directory {place}: {error} Give it a path where "
                "this user may write."
            ) from None
        return self._settings.output_format.open(self._spool), committable

    def prepare_commit(self) -> list[Any]:
        self._complete += self._open.values()
        self._open = {}
        self._output.each(self._store, self._complete)
        for bucket in dict.fromkeys(entry["bucket"] for _, entry in self._complete):
            self._output.storage.flush(self._output.hidden_below(bucket))
        self._is_prepared = True
        committables = [committable for _, committable in self._complete]
        return sorted(committables, key=lambda committable: int(committable["number"]))

    def _store(self, each: tuple[PendingFile, Entry]) -> None:
        file, committable = each
        content = file.content()
        self._output.storage.write(self._output.hidden(committable), content, deferred=True)
        committable["size"] = content.size_bytes

    def close(self) -> None:
        self._spool.close()
        if not self._is_prepared:
            keys = [self._output.hidden(committable) for _, committable in self._complete]
            self._complete, self._open = [], {}
            self._output.each(self._output.storage.delete, keys)


# The committing half of the file sink: pending files become part files, each exactly once.
#
# Pending files of one bucket and subtask collect in the *open* part, still hidden, until the
# rolling policy closes it. Then they become one part file, called after the first of them:
#
# 1. one pending file: it is renamed;
# 2. several: a list of them is written (`.<part>.sources`), they are joined into the part file,
#    which appears as a whole, then they are deleted, then the list.
#
# The moment at which the part file appears is that at which records become visible. What is
# repeated after a crash finds out from the directory what was done before: a part file that exists
# was finished, and what its list still names is deleted and not joined again. The open part is the
# committer's state; a restored state may be older than the directory, never newer.
#
# Output becomes visible below the directory that it was written to, also when the program that goes
# on from a snapshot has given its sink another one; unless all of it has been moved to that one.


class FileCommitter(Committer):
    """Makes part files visible."""

    kind = "file"

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings
        self._open: list[Entry] = []
        self._done: set[str] = set()
        # What the last commit has left open, and this one need not look for.
        self._known: set[str] = set()
        self._outputs: dict[str, SinkDirectory] = {}
        self._buckets: set[tuple[str, str]] = set()
        self._swept_ms = 0

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        entries = {
            entry["pending"]: entry
            for entry in (*self._open, *committables)
            if entry["pending"] not in self._done
        }
        done = {entry["pending"] for entry in committables if entry["pending"] in self._done}
        left: list[Entry] = []
        known, self._known = self._known, set()
        for group in map(self._placed, _groups(entries.values())):
            self._buckets.add((group[0]["base"], group[0]["bucket"]))
            pending = self._unfinished(group, known)
            for part, is_closed in self._parts(pending, context):
                if is_closed:
                    self._publish_or_name(part)
                else:
                    left += part
        self._done = done | (entries.keys() - {entry["pending"] for entry in left})
        self._open = left
        self._known = {entry["pending"] for entry in left}
        if context.final or context.now_ms - self._swept_ms >= _SWEEP_MS:
            self._swept_ms = context.now_ms
            self._sweep(context)

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        for entry in committables:
            self._buckets.add((self._base(entry), entry["bucket"]))
            output = self._output(entry)
            output.storage.delete(output.hidden(entry))

    def snapshot(self) -> Any:
        return {"open": list(self._open), "done": sorted(self._done)}

    def restore(self, state: Any) -> None:
        self._open = list(state["open"]) if state else []
        self._done = set(state["done"]) if state else set()

    # -- which pending files make a part ----------------------------------------------------------

    def _placed(self, group: list[Entry]) -> list[Entry]:
        """Returns a group with the directory that it lies in; early snapshots do not name it."""
        own = self._settings.base_path
        base = self._base(group[0])
        if base != own and not self._lies_in(base, group) and self._lies_in(own, group):
            base = own
        return [{**entry, "base": base} for entry in group]

    def _lies_in(self, base: str, group: list[Entry]) -> bool:
        output = self._output({"base": base})
        places = (output.hidden, output.part)
        return any(output.storage.exists(place(entry)) for entry in group for place in places)

    def _parts(
        self, entries: list[Entry], context: CommitContext
    ) -> Iterable[tuple[list[Entry], bool]]:
        """Yields runs of entries, and whether each is a closed part."""
        policy = self._settings.policy
        part: list[Entry] = []
        size = 0
        for entry in entries:
            part.append(entry)
            size += entry["size"]
            if size >= policy.part_size:
                yield part, True
                part, size = [], 0
        if part:
            info = PartInfo(size, part[0]["written_ms"], part[-1]["written_ms"])
            yield part, context.final or policy.should_roll(info, context.now_ms)

    # -- what an earlier commit did ---------------------------------------------------------------

    def _unfinished(self, entries: list[Entry], known: set[str]) -> list[Entry]:
        """Returns the entries that are in no part file yet; some are known to be."""
        output = self._output(entries[0])
        places = (output.part, output.hidden)
        asked = [entry for entry in entries if entry["pending"] not in known]
        keys = [place(entry) for entry in asked for place in places]
        exists = dict(zip(keys, output.each(output.storage.exists, keys), strict=True))
        unfinished: list[Entry] = []
        finished: set[str] = set()
        some_part_exists = False
        for entry in entries:
            if entry["pending"] in known:
                unfinished.append(entry)
                continue
            if exists[output.part(entry)]:
                some_part_exists = True
                finished |= self._finish(entry, output)
            if entry["pending"] in finished:
                continue
            if exists[output.hidden(entry)]:
                unfinished.append(entry)
            elif not some_part_exists:
                own, url_of = self._settings.base_path, output.storage.url_of
                moved = f", nor are they below {own}" if entry["base"] != own else ""
                raise JobExecutionError(
                    f"the output of epoch {entry['epoch']} is lost: there is neither "
                    f"{url_of(output.hidden(entry))} nor {url_of(output.part(entry))}{moved}. If "
                    "the part file was moved away on purpose, put it back, or an empty file of "
                    "that name."
                )
        return unfinished

    def _finish(self, entry: Entry, output: SinkDirectory) -> set[str]:
        """Deletes what a finished part was made of; returns the names."""
        sources = output.hidden(entry, "sources")
        try:
            names: list[str] = json.loads(output.storage.read(sources))
        except ObjectMissingError:
            names = [entry["pending"]]
        keys = [output.hidden({**entry, "pending": name}) for name in names]
        output.each(output.storage.delete, keys)
        output.storage.delete(sources)
        return set(names)

    # -- making parts -----------------------------------------------------------------------------

    def _publish_or_name(self, part: list[Entry]) -> None:
        output = self._output(part[0])
        try:
            self._publish(part, output)
        except (OSError, FilesError) as error:
            # A full disk, for one, does not say which file it was about.
            place = output.storage.url_of(output.part(part[0]))
            raise JobExecutionError(f"the part file {place} cannot be written: {error}") from error

    def _publish(self, part: list[Entry], output: SinkDirectory) -> None:
        first, storage = part[0], output.storage
        keys = list(map(output.hidden, part))
        if len(part) == 1 and self._settings.output_format.is_complete:
            storage.rename(keys[0], output.part(first))
            return
        sources = output.hidden(first, "sources")
        names = json.dumps([entry["pending"] for entry in part]).encode()
        storage.write(sources, Content.of_bytes(names))
        size_bytes = sum(entry["size"] for entry in part)
        with self._settings.output_format.join(storage, keys, size_bytes) as content:
            storage.write(output.part(first), content)
        output.each(storage.delete, keys)
        storage.delete(sources)

    def _base(self, entry: Entry) -> str:
        return str(entry.get("base", self._settings.base_path))

    def _output(self, entry: Entry) -> SinkDirectory:
        base = self._base(entry)
        if base not in self._outputs:
            self._outputs[base] = SinkDirectory(base, self._settings.storage)
        return self._outputs[base]

    def _sweep(self, context: CommitContext) -> None:
        """Deletes what attempts that died have left in this line of the job.

        At the end nothing else can be pending. Before, this is only done on object stores, where
        pending files are apart and listed by one request: those of epochs that are committed. What
        an earlier line left stays: a process that died may have taken a savepoint that names it.
        """
        digest = f"-{sink_digest(context.job_id, context.uid)}"
        kept = {entry["pending"] for entry in (*context.kept, *self._open)}
        for base, bucket in {*self._buckets, (self._settings.base_path, None)}:
            output = self._output({"base": base})
            if output.has_directories and bucket is not None and context.final:
                self._remove(output, bucket, digest, kept, context)
            elif not output.has_directories and bucket is None:
                self._remove(output, _APART, digest, kept, context)

    def _remove(
        self,
        output: SinkDirectory,
        directory: str,
        digest: str,
        kept: set[str],
        context: CommitContext,
    ) -> None:
        left, run = [], f".{context.run}"
        for found in output.storage.list(directory):
            above, _, name = found.key.rpartition("/")
            before, is_own, after = name.partition(digest)
            if not name.startswith(".") or not is_own or name in kept or run not in after:
                continue
            if output.has_directories and above != directory:
                continue  # Of another bucket, which this job may not have written to.
            if context.final or int(before.rpartition("-")[2]) <= context.epoch:
                left.append(found.key)
        output.each(output.storage.delete, left)


def _groups(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Returns entries by sink, directory and subtask, each group in the order of writing.

    What another job has left open makes a part of its own: two jobs that start from one savepoint
    may close it at the same time, so both must write the same.
    """
    groups: dict[tuple[str, str, str, int], list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry["epoch"], entry["number"])):
        key = (entry["sink"], entry.get("base", ""), entry["bucket"], entry["subtask"])
        groups.setdefault(key, []).append(entry)
    return [groups[key] for key in sorted(groups)]
