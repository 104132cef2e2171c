"""The state of a running job as records of a snapshot; `restore` leads the other way."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.manifest import (
    LOGIC,
    OPERATOR_STATE,
    ChunkCodec,
    JobSnapshot,
    OperatorRecord,
    StateRecord,
    StoredChunk,
    StoredHandle,
    SubtaskRecord,
    handle_record,
    keyed_record,
)
from penstock.checkpoint.statistics import TaskShape
from penstock.state.evolution import DATA, StateFacts
from penstock.state.schema import schema_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.source import Split
    from penstock.core.handles import FileHandle, KeyedStateVersion
    from penstock.graph.job_graph import ChainedOperator, JobGraph, Stage
    from penstock.runtime.driver import JobDriver
    from penstock.runtime.job_state import JobState, SourceProgress
    from penstock.runtime.records import EpochTimes, OperatorVersion
    from penstock.runtime.sinks import SinkCommits
    from penstock.runtime.state_files import StateFiles


PARALLELISM: Final = "parallelism"
"""Name in a manifest: what a rescaled job wants of its operators, by uid."""
SLOTS: Final = "slots"
"""Name in a manifest: how many tasks the executors of the job ran at once, on a cluster."""
LINE: Final = "line"
"""Name in a manifest: see `WriterContext.line`."""


class JobForCheckpoints:
    """The running job as `checkpoint.service` sees it."""

    def __init__(
        self,
        graph: JobGraph,
        sinks: SinkCommits,
        files: StateFiles,
        find_slots: Callable[[], int] = lambda: 0,
    ) -> None:
        self.sinks = sinks
        self.parallelism: dict[str, int] = {}
        """What operators were rescaled to, by uid; an attempt that restores from here has it."""
        self.begin_line()
        self._find_slots = find_slots
        self.pin_again = files.pin_again
        self.unpin = files.unpin
        self._pin = files.pin
        self.reshaped(graph)

    def begin_line(self) -> None:
        """The next attempt does not go on where the output of those before it ends."""
        self.line = secrets.token_hex(6)

    @property
    def line(self) -> str:
        """The line of the job; its sinks sweep what dead attempts of this one left."""
        return self.sinks.line

    @line.setter
    def line(self, line: str) -> None:
        self.sinks.line = line

    def reshaped(self, graph: JobGraph) -> None:
        """The next attempt runs the job with other parallelisms."""
        self._graph = graph
        self.tasks = tuple(
            TaskShape(
                stage.vertex_id,
                stage.stage_id,
                stage.name,
                stage.parallelism,
                tuple(operator.uid for operator in stage.operators),
            )
            for stage in graph.stages
        )

    def capture(self, driver: JobDriver) -> tuple[JobSnapshot, frozenset[str]]:
        """Returns the state at the end of an epoch, and the local files in it, which are pinned."""
        state = driver.state
        sinks, files = self.sinks.snapshot()
        pending = {uid: tuple(map(handle_record, each)) for uid, each in files.items()}
        pinned = {handle.name for each in pending.values() for handle in each}
        snapshot = to_snapshot(self._graph, state, sinks, driver.epoch_times, pending)
        job = {**snapshot.job, LINE: self.line}
        if self.parallelism:
            job[PARALLELISM] = self.parallelism
        if slots := self._find_slots():
            job[SLOTS] = slots
        snapshot = replace(snapshot, job=job)
        return snapshot, self._pin(state.versions.values()) | pinned


def uid_hash(uid: str) -> str:
    """Returns the 32 hex digits that stand for a uid where names will not do."""
    return hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()


def to_snapshot(
    graph: JobGraph,
    state: JobState,
    sinks: dict[str, Any],
    times: EpochTimes | None = None,
    pending: dict[str, tuple[StoredHandle, ...]] | None = None,
) -> JobSnapshot:
    """Returns the state of a job as a snapshot has it."""
    return JobSnapshot(
        epoch=state.epoch,
        operators=tuple(
            _operator(graph, stage, operator, state)
            for stage in graph.stages
            for operator in stage.operators
        ),
        sources={uid: _plain_progress(progress) for uid, progress in state.sources.items()},
        sinks=sinks,
        job={"is_firing": True} if state.is_firing else {},
        times=times,
        pending=pending or {},
    )


def _operator(
    graph: JobGraph, stage: Stage, operator: ChainedOperator, state: JobState
) -> OperatorRecord:
    versions = [
        state.versions[stage.stage_id, index].operators[operator.uid]
        for index in range(stage.parallelism)
    ]
    return OperatorRecord(
        uid=operator.uid,
        uid_hash=uid_hash(operator.uid),
        name=operator.name,
        parallelism=stage.parallelism,
        max_parallelism=stage.max_parallelism,
        key_schema=key_schema(graph, stage) if any(version.keyed for version in versions) else "",
        states=state_records(versions),
        subtasks=tuple(
            subtask_record(
                version.keyed[0] if version.keyed else None, version.logic[0], version.lists[0]
            )
            for version in versions
        ),
    )


def key_schema(graph: JobGraph, stage: Stage) -> str:
    """Returns the type of the keys of a stage as its program declared it; "" if it did not."""
    for edge in graph.inputs_of(stage):
        declared = getattr(edge.partitioning, "key_type", None)
        if declared is not None:
            return schema_text(declared)
    return ""


def subtask_record(
    keyed: KeyedStateVersion | None, logic: FileHandle, lists: tuple[FileHandle, ...]
) -> SubtaskRecord:
    """Returns the record of a subtask: its keyed state, and what its operator keeps besides."""
    named = [(LOGIC, logic)]
    named += [(f"{OPERATOR_STATE}{number}", handle) for number, handle in enumerate(lists)]
    return SubtaskRecord(
        keyed=None if keyed is None else keyed_record(keyed),
        chunks=tuple(
            StoredChunk(name=name, codec=ChunkCodec.MSGPACK, handle=handle_record(handle))
            for name, handle in named
        ),
    )


def state_records(versions: list[OperatorVersion]) -> tuple[StateRecord, ...]:
    """Returns the records of all states that any subtask has; the subtasks agree about each."""
    known: dict[tuple[str, str], StateFacts] = {}
    for version in versions:
        for facts in version.states:
            found = known.setdefault((facts.name, facts.table_kind), facts)
            if not found.schema and facts.schema:
                known[facts.name, facts.table_kind] = facts
    return tuple(
        StateRecord(
            name=facts.name,
            kind=facts.kind,
            key_codec="" if facts.kind.startswith("operator-") else DATA,
            value_codec=facts.codec,
            schema=facts.schema,
            ttl=facts.ttl,
        )
        for _, facts in sorted(known.items())
    )


def _plain_progress(progress: SourceProgress) -> dict[str, Any]:
    resumed = progress.resumed
    shares = [splits for _, splits in sorted(progress.assigned.items())]
    given = [split for splits in shares for split in splits]
    # A restore may leave more splits that were begun than subtasks take at once.
    begun = [split for split in progress.waiting if split.split_id in resumed]
    return {
        "state": progress.state,
        "complete": progress.complete,
        "waiting": [
            _plain_split(each) for each in progress.waiting if each.split_id not in resumed
        ],
        "assigned": [
            *([_plain_split(split), progress.positions[split.split_id]] for split in given),
            *([_plain_split(split), resumed[split.split_id]] for split in begun),
        ],
        "shares": [len(splits) for splits in shares],
        "finished": progress.finished,
    }


def _plain_split(split: Split) -> list[Any]:
    return [split.split_id, split.data, split.start, split.concurrent]
