"""The writing half of the file sink: pending files, hidden beside where they will be visible.

A pending file is called `.<part>.<attempt>.inprogress` and lies in the directory of its bucket, so
that a rename makes it visible at once and as a whole. The name of the part holds a digest of job,
sink and attempt: nothing that another attempt or another job wrote is ever overwritten.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.file_sink.rolling import BucketAssigner, PartInfo, checked_bucket
from penstock.connectors.sink import CommitContext, Committer, SinkWriter, WriterContext
from penstock.connectors.user_sink import SinkContext
from penstock.core.errors import JobExecutionError
from penstock.core.times import NO_TIMESTAMP
from penstock.files.private import make_durable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.connectors.file_sink.encoders import OutputFormat, PendingFile
    from penstock.connectors.file_sink.rolling import OutputFileConfig, RollingPolicy

PENDING_SUFFIX = ".inprogress"


@dataclass(frozen=True, slots=True)
class FileSinkSettings:
    """What writer and committer share."""

    base_path: str  # Absolute directory.
    output_format: OutputFormat  # How records become bytes.
    assigner: BucketAssigner  # Which bucket a record belongs to.
    policy: RollingPolicy  # When parts are closed.
    names: OutputFileConfig  # How parts are called.


def sink_digest(job_id: str, uid: str) -> str:
    """Returns what all file names of a sink contain."""
    return hashlib.sha256(f"{job_id}/{uid}".encode()).hexdigest()[:8]


class FileSinkWriter(SinkWriter):
    """Writes the pending files of one subtask and epoch."""

    def __init__(self, settings: FileSinkSettings, context: WriterContext) -> None:
        self._settings = settings
        self._context = context
        self._record = SinkContext(context.now_ms)
        self._open: dict[str, tuple[PendingFile, dict[str, Any]]] = {}
        self._complete: list[tuple[PendingFile, dict[str, Any]]] = []
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

    def _begin(self, bucket: str) -> tuple[PendingFile, dict[str, Any]]:
        context, names = self._context, self._settings.names
        number, self._count = self._count, self._count + 1
        attempt = hashlib.sha256(f"{context.attempt_id}/{number}".encode()).hexdigest()[:8]
        digest = sink_digest(context.job_id, context.uid) + attempt
        part = (
            f"{names.part_prefix}-{context.subtask}-{context.epoch:06d}-{digest}{names.part_suffix}"
        )
        committable = {
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
        folder = self._folder(committable)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobExecutionError(
                f"the file sink cannot make the directory {folder}: {error.strerror}. Give it a "
                "path where this user may write."
            ) from None
        path = folder / str(committable["pending"])
        if path.exists():
            raise JobExecutionError(
                f"{path} exists already: another attempt had the same name, {context.attempt_id}. "
                "Names of attempts must be unique; if no job is running, delete the file."
            )
        return self._settings.output_format.open(path), committable

    def _folder(self, committable: dict[str, Any]) -> Path:
        return Path(self._settings.base_path, committable["bucket"])

    def prepare_commit(self) -> list[Any]:
        self._complete += self._open.values()
        self._open = {}
        folders: dict[Path, None] = {}
        for file, committable in self._complete:
            file.close()
            folder = self._folder(committable)
            folders[folder] = None
            path = folder / committable["pending"]
            make_durable(path)
            committable["size"] = path.stat().st_size
        for folder in folders:
            make_durable(folder)
        self._is_prepared = True
        committables = [committable for _, committable in self._complete]
        return sorted(committables, key=lambda committable: int(committable["number"]))

    def close(self) -> None:
        if self._is_prepared:
            return
        for _, committable in (*self._complete, *self._open.values()):
            (self._folder(committable) / committable["pending"]).unlink(missing_ok=True)
        self._complete, self._open = [], {}


# The committing half of the file sink: pending files become part files, each exactly once.
#
# Pending files of one bucket and subtask collect in the *open* part, still hidden, until the
# rolling policy closes it. Then they become one part file, called after the first of them:
#
# 1. one pending file: it is renamed;
# 2. several: a list of them is written (`.<part>.sources`), they are joined into a hidden file,
#    that is renamed, then they are deleted, then the list.
#
# The rename is the moment at which records become visible. Whatever is repeated after a crash finds
# out from the directory what was done before: a part file that exists was finished, and what its
# list still names is deleted and not joined again. The open part is the committer's state; a
# restored state may be older than the directory, never newer.
#
# Output becomes visible below the directory that it was written to, also when the program that goes
# on from a snapshot has given its sink another one; unless all of it has been moved to that one.


Entry = dict[str, Any]
"""A committable of the writer: one pending file."""

_NAMES: Final = ("pending", "part")


class FileCommitter(Committer):
    """Makes part files visible."""

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings
        self._open: list[Entry] = []
        self._done: set[str] = set()
        self._folders: set[Path] = set()

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        entries = {
            entry["pending"]: entry
            for entry in (*self._open, *committables)
            if entry["pending"] not in self._done
        }
        done = {entry["pending"] for entry in committables if entry["pending"] in self._done}
        left: list[Entry] = []
        for group in map(self._placed, _groups(entries.values())):
            self._folders.add(self._path(group[0], "part").parent)
            pending = self._unfinished(group)
            for part, is_closed in self._parts(pending, context):
                if is_closed:
                    self._publish_or_name(part)
                else:
                    left += part
        self._done = done | (entries.keys() - {entry["pending"] for entry in left})
        self._open = left
        if context.final:
            self._sweep(context)

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        for entry in committables:
            path = self._path(entry, "pending")
            self._folders.add(path.parent)
            path.unlink(missing_ok=True)

    def snapshot(self) -> Any:
        return {"open": list(self._open), "done": sorted(self._done)}

    def restore(self, state: Any) -> None:
        self._open = list(state["open"]) if state else []
        self._done = set(state["done"]) if state else set()

    # -- which pending files make a part ----------------------------------------------------------

    def _placed(self, group: list[Entry]) -> list[Entry]:
        """Returns a group with the directory that it lies in; early snapshots do not name it."""
        own = self._settings.base_path
        base = group[0].get("base", own)
        if base != own and not self._lies_in(base, group) and self._lies_in(own, group):
            base = own
        return [{**entry, "base": base} for entry in group]

    def _lies_in(self, base: str, group: list[Entry]) -> bool:
        places = ({**entry, "base": base} for entry in group)
        return any(self._path(each, name).exists() for each in places for name in _NAMES)

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

    def _unfinished(self, entries: list[Entry]) -> list[Entry]:
        """Returns the entries that are in no part file yet."""
        unfinished: list[Entry] = []
        finished: set[str] = set()
        some_part_exists = False
        for entry in entries:
            sources = self._hidden(entry, "sources")
            if self._path(entry, "part").exists():
                some_part_exists = True
                finished |= self._finish(entry, sources)
            if entry["pending"] in finished:
                continue
            if self._path(entry, "pending").exists():
                unfinished.append(entry)
            elif not some_part_exists:
                own = self._settings.base_path
                moved = f", nor are they below {own}" if entry["base"] != own else ""
                raise JobExecutionError(
                    f"the output of epoch {entry['epoch']} is lost: there is neither "
                    f"{self._path(entry, 'pending')} nor {self._path(entry, 'part')}{moved}. If "
                    "the part file was moved away on purpose, put it back, or an empty file of "
                    "that name."
                )
        return unfinished

    def _finish(self, entry: Entry, sources: Path) -> set[str]:
        """Deletes what a finished part was joined from; returns the names."""
        if not sources.exists():
            return {entry["pending"]}
        names: list[str] = json.loads(sources.read_text(encoding="utf-8"))
        for name in names:
            sources.with_name(name).unlink(missing_ok=True)
        sources.unlink()
        return set(names)

    # -- making parts -----------------------------------------------------------------------------

    def _publish_or_name(self, part: list[Entry]) -> None:
        try:
            self._publish(part)
        except OSError as error:
            # A full disk, for one, does not say which file it was about.
            raise JobExecutionError(
                f"the part file {self._path(part[0], 'part')} cannot be written: {error}."
            ) from error

    def _publish(self, part: list[Entry]) -> None:
        first = part[0]
        target = self._path(first, "part")
        pending = [self._path(entry, "pending") for entry in part]
        if len(part) == 1 and self._settings.output_format.is_complete:
            pending[0].rename(target)
            make_durable(target.parent)
            return
        sources, joined = self._hidden(first, "sources"), self._hidden(first, "joined")
        sources.write_text(json.dumps([path.name for path in pending]), encoding="utf-8")
        make_durable(sources)
        self._settings.output_format.join(pending, joined)
        make_durable(joined)
        make_durable(target.parent)
        joined.rename(target)
        make_durable(target.parent)
        for path in pending:
            path.unlink(missing_ok=True)
        sources.unlink()

    def _path(self, entry: Entry, name: str) -> Path:
        base = entry.get("base", self._settings.base_path)
        return Path(base, entry["bucket"], entry[name])

    def _hidden(self, entry: Entry, kind: str) -> Path:
        return self._path(entry, "part").with_name(f".{entry['part']}.{kind}")

    def _sweep(self, context: CommitContext) -> None:
        """Deletes pending files of attempts that died, when nothing else can be pending."""
        digest = f"-{sink_digest(context.job_id, context.uid)}"
        kept = {entry["pending"] for entry in context.kept}
        for folder in self._folders:
            for path in folder.glob(f".*{PENDING_SUFFIX}"):
                if digest in path.name and path.name not in kept:
                    path.unlink(missing_ok=True)


def _groups(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Returns entries by directory and subtask, each group in the order of writing."""
    groups: dict[tuple[str, str, int], list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry["epoch"], entry["number"])):
        key = (entry.get("base", ""), entry["bucket"], entry["subtask"])
        groups.setdefault(key, []).append(entry)
    return [groups[key] for key in sorted(groups)]
