"""Both sides of a sink: a subtask writes pending output, the driver commits it.

Without checkpointing an epoch counts at once. With it, what was prepared waits for the checkpoint
that contains it; it is part of every snapshot until it is known to be committed, and after a
restore it is committed again, which committers take as already done.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from penstock.connectors.sink import CommitContext, Committer, Sink, SinkWriter, WriterContext
from penstock.core.errors import InputError, JobExecutionError, PenstockError, is_lasting_in_commit
from penstock.core.fault_points import fault_point
from penstock.files.area import FileArea
from penstock.graph.nodes import NodeKind
from penstock.operators.errors import function_error, traceback_of_user
from penstock.operators.logic import OperatorLogic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.connectors.source import Source
    from penstock.core.handles import FileHandle
    from penstock.core.records import Batch
    from penstock.core.times import Clock
    from penstock.graph.job_graph import JobGraph
    from penstock.runtime.records import JobProgram, SubtaskReport
    from penstock.runtime.state_files import StateFiles


class SinkLogic(OperatorLogic):
    """Writes pending output; the driver commits it."""

    def __init__(self, sink: Sink, program: JobProgram, area: FileArea) -> None:
        self._sink = sink
        self._program = program
        # Where the driver, which commits, does not see the directory, bytes travel in handles.
        stays = program.state.stays
        self._area = FileArea(area.directory, sys.maxsize) if stays else area
        self._writer: SinkWriter | None = None

    def begin_epoch(self, epoch: int, attempt_id: str) -> None:
        """Drops what an aborted epoch left open; the writer is made when the first record comes."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._epoch = epoch
        program = self._program
        run = f"{program.job_id[:8]}{program.line}"
        self._attempt_id = f"{run}-{program.leader_epoch}.{program.attempt}-{epoch}-{attempt_id}"

    def process(self, batch: Batch, input_index: int = 0) -> None:
        try:
            if self._writer is None:
                self._writer = self._open_writer()
            self._writer.write(batch.values, batch.timestamps, self.watermark)
        except PenstockError:
            raise
        except Exception as error:
            raise function_error(error, self.context) from error

    def _open_writer(self) -> SinkWriter:
        context = self.context
        return self._sink.create_writer(
            WriterContext(
                job_id=self._program.job_id,
                uid=context.uid,
                subtask=context.subtask,
                parallelism=context.parallelism,
                epoch=self._epoch,
                attempt_id=self._attempt_id,
                now_ms=context.clock.now_ms,
                scratch_dir=self._program.state.scratch_directory,
                attempt=(self._program.leader_epoch, self._program.attempt),
                line=self._program.line,
                area=self._area,
            )
        )

    def prepare_commit(self) -> list[Any]:
        """Returns the committables of the epoch."""
        if self._writer is None:
            return []
        committables = self._writer.prepare_commit()
        self._writer.close()
        self._writer = None
        return committables

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._sink.close()


_BETWEEN = fault_point("sink.commit.between")


class SinkCommits:
    """All committers of a job; called by the driver and by `CheckpointService`."""

    def __init__(
        self,
        graph: JobGraph,
        job_id: str,
        clock: Clock,
        spark: Any = None,
        files: StateFiles | None = None,
    ) -> None:
        self._job_id = job_id
        self.line = ""
        """See `WriterContext.line`."""
        self._clock = clock
        self._spark = spark
        self._files = files
        # Of what is prepared; a commit may take long, and the driver prepares meanwhile.
        self._lock = threading.RLock()
        # Of the committers.
        self._committing = threading.RLock()
        self._held: set[str] = set()
        self._committers: dict[str, Committer] = {
            operator.uid: operator.spec.sink.create_committer()
            for operator in graph.operators
            if operator.kind is NodeKind.SINK
        }
        self._pending: dict[str, list[tuple[int, Any]]] = {}
        self._promised: dict[str, set[str]] = {}
        """Of what is pending; it may hold its bytes."""
        self.has_promised = False
        """Whether a snapshot that may outlive the job names output of its own."""
        self._kept: dict[str, list[Any]] = {}
        self._reading = _Reading(graph)

    def reshaped(self, graph: JobGraph) -> None:
        """The next attempt runs the job with other parallelisms."""
        self._reading.reshaped(graph)

    def prepared(self, epoch: int, reports: list[SubtaskReport]) -> None:
        """Takes the committables of an epoch that counts, in the order of subtasks."""
        with self._lock:
            for report in sorted(reports, key=lambda report: (report.stage_id, report.subtask)):
                for uid, committables in report.committables.items():
                    pending = self._pending.setdefault(uid, [])
                    pending.extend((epoch, committable) for committable in committables)
                    # Not all that is pending: it may be that of many epochs.
                    self._hold(set(self._files_of(uid, committables)) - self._held)
            self._reading.prepared(epoch, reports)

    def commit(self, epoch: int, checkpoint_id: int | None = None, *, final: bool = False) -> None:
        """Commits what was prepared up to an epoch.

        Committers without new output are called too: an open part file may have to roll by time.
        """
        with self._committing:
            for uid, committer in self._committers.items():
                with self._lock:
                    pending = list(self._pending.get(uid, ()))
                due = [committable for prepared, committable in pending if prepared <= epoch]
                context = self._context(uid, epoch, checkpoint_id, final=final)
                try:
                    committer.commit(due, context)
                except Exception as error:
                    text = str(error)
                    if not isinstance(error, PenstockError):
                        text = f"{type(error).__name__}: {text}\n{traceback_of_user(error)}"
                    kind = InputError if is_lasting_in_commit(error) else JobExecutionError
                    raise kind(f"sink '{uid}': {text}".rstrip()) from error
                _BETWEEN.reach(uid)
                if due:
                    self._forget(uid, lambda prepared: prepared <= epoch)
                    with self._lock:
                        if promised := self._promised.get(uid):
                            promised.difference_update(map(repr, due))
            with self._lock:
                self._reading.committed(epoch, by_checkpoint=checkpoint_id is not None)

    def abort(self, reports: list[SubtaskReport], epoch: int) -> None:
        """Removes the output of an epoch that does not count."""
        with self._committing:
            for report in reports:
                for uid, committables in report.committables.items():
                    if committables:
                        context = self._context(uid, epoch, None, final=False)
                        self._committers[uid].abort(committables, context)
                        if self._files is not None:
                            self._files.let_go(set(self._files_of(uid, committables)), held=False)

    def abort_after(self, epoch: int) -> bool:
        """Removes output of later epochs, which a job that goes on from this one prepares again.

        Returns:
            Whether some of it stays, since a savepoint names it.
        """
        is_forked = False
        with self._committing, self._lock:
            self._reading.forget_after(epoch)
            for uid, pending in self._pending.items():
                gone = [committable for prepared, committable in pending if prepared > epoch]
                if gone:
                    promised = self._promised.get(uid, set())
                    kept = [each for each in gone if repr(each) in promised]
                    self._kept.setdefault(uid, []).extend(kept)
                    is_forked |= bool(kept)
                    gone = [each for each in gone if repr(each) not in promised]
                    context = self._context(uid, epoch, None, final=False)
                    self._committers[uid].abort(gone, context)
                    self._forget(uid, lambda prepared: prepared > epoch)
        return is_forked

    def _forget(self, uid: str, is_done: Callable[[int], bool]) -> None:
        with self._lock:
            self._pending[uid] = [each for each in self._pending[uid] if not is_done(each[0])]
            self._hold_files()

    def _files_of(self, uid: str, committables: Iterable[Any]) -> dict[str, FileHandle]:
        """Returns the files that committables name; what is inline has none."""
        files = self._committers[uid].files
        named = (handle for committable in committables for handle in files(committable))
        return {handle.name: handle for handle in named if handle.inline is None}

    def _hold_files(self) -> None:
        """Has the local files of what is prepared kept, and no others any more."""
        if self._files is None:
            return
        named = {
            name
            for uid, pending in self._pending.items()
            if uid in self._committers
            for name in self._files_of(uid, (committable for _, committable in pending))
        }
        self._files.let_go(self._held - named)
        self._held &= named
        self._hold(named - self._held)

    def _hold(self, names: set[str]) -> None:
        if self._files is not None and names:
            self._files.hold(names)
            self._held |= names

    def promise(self, sinks: dict[str, Any]) -> None:
        """A savepoint with these owed commits is about to exist: what it names is never removed.

        A job that starts from it commits that output, however this job ends.
        """
        with self._lock:
            for uid, saved in sinks.items():
                promised = self._promised.setdefault(uid, set())
                promised.update(repr(committable) for _, committable in saved["pending"])
                self.has_promised |= bool(saved["pending"])

    def snapshot(self) -> tuple[dict[str, Any], dict[str, tuple[FileHandle, ...]]]:
        """Returns plain data by uid: what the committer keeps, and what it still owes.

        And the files that the latter names, which are pinned.
        """
        with self._committing, self._lock:
            sinks = {
                uid: {
                    "committer": committer.snapshot(),
                    "pending": [list(each) for each in self._pending.get(uid, [])],
                    "owes_other_jobs": committer.owes_other_jobs,
                    "kind": committer.kind,
                }
                for uid, committer in self._committers.items()
            }
            files = {
                uid: tuple(self._files_of(uid, (each for _, each in saved["pending"])).values())
                for uid, saved in sinks.items()
            }
            if self._files is not None:
                self._files.pin_again(frozenset(self._held))
            return sinks, {uid: named for uid, named in files.items() if named}

    def restore(self, sinks: dict[str, Any], from_job: str) -> None:
        """Takes back the `snapshot` of a job; sinks that are new or gone do not matter.

        Raises:
            InputError: It owes output of another kind of sink.
        """
        with self._committing, self._lock:
            for uid, committer in self._committers.items():
                saved = sinks.get(uid, {"committer": None, "pending": []})
                is_ours = saved.get("kind", committer.kind) == committer.kind
                committer.restore(saved["committer"] if is_ours else None)
                takes = from_job == self._job_id or (
                    committer.owes_other_jobs and saved.get("owes_other_jobs", True)
                )
                owed = saved["pending"] if takes else []
                if owed and not is_ours:
                    raise InputError(
                        f"the snapshot owes output of another kind of sink ({saved['kind']}), "
                        f"which had the uid '{uid}'. Go on with that sink; or give this one "
                        "another uid, and drop the output with "
                        "execution.state-recovery.ignore-unclaimed-state: true (-n)."
                    )
                self._pending[uid] = [(epoch, committable) for epoch, committable in owed]
            self._hold_files()

    def close(self) -> None:
        for committer in self._committers.values():
            committer.close()
        self._reading.close()

    def _context(
        self, uid: str, epoch: int, checkpoint_id: int | None, *, final: bool
    ) -> CommitContext:
        return CommitContext(
            job_id=self._job_id,
            uid=uid,
            epoch=epoch,
            checkpoint_id=checkpoint_id,
            final=final,
            now_ms=self._clock.wall_ms(),
            spark=self._spark,
            kept=tuple(self._kept.get(uid, ())),
            area=None if self._files is None else self._files.area,
            line=self.line,
        )


class _Reading:
    """How far sources have read, for those that tell others once it is certain."""

    def __init__(self, graph: JobGraph) -> None:
        self.reshaped(graph)
        self._sources: dict[str, Source] = {
            stage.operators[0].uid: stage.operators[0].spec.source
            for stage in graph.stages
            if stage.is_source
        }
        self._read: list[tuple[int, dict[str, dict[str, Any]], dict[str, set[str]]]] = []
        """Epochs, with positions of splits, and splits that ended, by the uid of their source."""
        self._told: dict[str, dict[str, Any]] = {uid: {} for uid in self._sources}

    def reshaped(self, graph: JobGraph) -> None:
        """Stages may have other numbers."""
        self._uids = {
            stage.stage_id: stage.operators[0].uid for stage in graph.stages if stage.is_source
        }

    def prepared(self, epoch: int, reports: list[SubtaskReport]) -> None:
        """Takes the positions behind an epoch that counts."""
        moved: dict[str, dict[str, Any]] = {}
        ended: dict[str, set[str]] = {}
        for report in reports:
            if report.positions:
                uid = self._uids[report.stage_id]
                moved.setdefault(uid, {}).update(report.positions)
                ended.setdefault(uid, set()).update(report.finished_splits)
        if moved:
            self._read.append((epoch, moved, ended))

    def committed(self, epoch: int, *, by_checkpoint: bool) -> None:
        """Tells sources of the positions behind an epoch."""
        due = [each for each in self._read if each[0] <= epoch]
        self._read = [each for each in self._read if each[0] > epoch]
        for uid, told in self._told.items():
            now = {split: at for _, moved, _ in due for split, at in moved.get(uid, {}).items()}
            new = {split: at for split, at in now.items() if told.get(split) != at}
            if new:
                told.update(new)
                self._sources[uid].checkpointed(new, by_checkpoint=by_checkpoint)
            for _, _, ended in due:
                for split in ended.get(uid, ()):  # A source may have new splits without end.
                    told.pop(split, None)

    def forget_after(self, epoch: int) -> None:
        """Forgets later epochs, which a job that goes on from this one runs again."""
        self._read = [each for each in self._read if each[0] <= epoch]

    def close(self) -> None:
        for source in self._sources.values():
            source.job_ended()
