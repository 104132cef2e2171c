"""Between the state of a running job and the records of a snapshot, in both directions.

State is matched by uid: operators may be added, removed, reordered and rescaled. Everything that
does not fit is found before the first record and said in one list.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.manifest import (
    LOGIC,
    OPERATOR_STATE,
    ChunkCodec,
    Manifest,
    OperatorRecord,
    StateRecord,
    StoredChunk,
    SubtaskRecord,
)
from penstock.checkpoint.snapshot import (
    JobSnapshot,
    handle_record,
    keyed_record,
    local_handle,
    local_keyed_state,
)
from penstock.connectors.source import Split
from penstock.core.keygroups import key_group_range
from penstock.launch.restore_check import raise_problems
from penstock.launch.restore_fit import fit, key_schema
from penstock.runtime.job_state import JobState
from penstock.runtime.records import OperatorVersion, SubtaskVersion
from penstock.runtime.source_progress import SourceProgress
from penstock.state.facts import DATA

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle, KeyedStateVersion
    from penstock.graph.job_graph import ChainedOperator, JobGraph, Stage
    from penstock.runtime.records import EpochTimes
    from penstock.state.facts import StateFacts


def uid_hash(uid: str) -> str:
    """Returns the 32 hex digits that stand for a uid where names will not do."""
    return hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()


def to_snapshot(
    graph: JobGraph, state: JobState, sinks: dict[str, Any], times: EpochTimes | None = None
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


def from_manifest(
    graph: JobGraph, manifest: Manifest, *, allow_non_restored: bool = False
) -> JobState:
    """Returns the state from which a program goes on from a snapshot.

    Raises:
        CheckpointError: The snapshot does not fit the program; lists all reasons.
    """
    found = fit(graph, manifest, allow_non_restored=allow_non_restored)
    raise_problems(list(found.problems), manifest)
    records = {record.uid: record for record in manifest.operators}
    versions = {
        (stage.stage_id, index): _subtask(stage, index, records, manifest)
        for stage in graph.stages
        for index in range(stage.parallelism)
    }
    sources = {
        stage.operators[0].uid: SourceProgress() for stage in graph.stages if stage.is_source
    }
    for uid in sources:
        if uid in manifest.sources:
            sources[uid] = _progress(manifest.sources[uid])
    is_firing = manifest.job.get("is_firing", False)
    return JobState(manifest.epoch, versions, sources, is_firing=is_firing)


def _subtask(
    stage: Stage, index: int, records: dict[str, OperatorRecord], manifest: Manifest
) -> SubtaskVersion:
    operators: dict[str, OperatorVersion] = {}
    first, last = key_group_range(index, stage.parallelism, stage.max_parallelism)
    for operator in stage.operators:
        record = records.get(operator.uid)
        if record is None:
            continue
        keyed = [subtask.keyed for subtask in record.subtasks if subtask.keyed is not None]
        operators[operator.uid] = OperatorVersion(
            keyed=tuple(
                local_keyed_state(each)
                for each in keyed
                if each.first_key_group <= last and each.last_key_group >= first
            ),
            logic=tuple(map(local_handle, record.logic)),
            lists=tuple(tuple(map(local_handle, files)) for files in record.lists),
        )
    # The epoch is part of the name: a worker that holds another version must not keep it.
    name = f"restored-{manifest.job_id}-{manifest.checkpoint_id}-{stage.stage_id}-{index}"
    return SubtaskVersion(name, operators, is_restored=True)


def _plain_progress(progress: SourceProgress) -> dict[str, Any]:
    return {
        "state": progress.state,
        "complete": progress.complete,
        "waiting": [_plain_split(split) for split in progress.waiting],
        "assigned": [
            [_plain_split(split), progress.positions[split.split_id]]
            for splits in progress.assigned.values()
            for split in splits
        ],
        "finished": progress.finished,
    }


def _progress(data: dict[str, Any]) -> SourceProgress:
    """Unfinished splits are dealt out anew, from where they were: parallelism may have changed."""
    unfinished = [(_split(split), position) for split, position in data["assigned"]]
    return SourceProgress(
        state=data["state"],
        complete=data["complete"],
        waiting=(*(split for split, _ in unfinished), *map(_split, data["waiting"])),
        resumed={split.split_id: position for split, position in unfinished},
        finished=data["finished"],
    )


def _plain_split(split: Split) -> list[Any]:
    return [split.split_id, split.data, split.start, split.concurrent]


def _split(data: list[Any]) -> Split:
    return Split(data[0], data[1], data[2], concurrent=data[3])
