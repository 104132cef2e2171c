"""Deliberately broken builds: the simulation has to catch each of them.

A check that nothing can fail proves nothing. Each break is a mistake that has corrupted some older
system, or the removal of a rule of the coordinator.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from sim_driver import SimDriver
from sim_job import Job, Snapshot
from sim_world import World

from penstock.checkpoint.coordination import coordinator, events, steps
from penstock.checkpoint.coordination.checkpoints import CheckpointFailure, FailureReason
from penstock.checkpoint.coordination.instructions import ReleaseSharedFiles
from penstock.checkpoint.coordination.state import DeletionQueue, SinkBacklog
from penstock.checkpoint.pointer import CheckpointIdCounter
from penstock.core.versioned import (
    Committed,
    Outcome,
    RecordVersion,
    SwapUnknownError,
    Unknown,
    VersionedRecord,
    encode_record,
)
from penstock.files.errors import FilesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint.coordination.state import CoordinatorState

SCHEDULES = 400

Patch = pytest.MonkeyPatch


def delete_on_unknown(patch: Patch) -> None:
    sound = steps.on_outcome_unknown

    def broken(state: CoordinatorState, event: Any) -> None:
        if not isinstance(event, events.PublicationUnknown):
            sound(state, event)
            return
        pending = state.find(event)
        if pending is not None:
            reason = CheckpointFailure(FailureReason.FINALIZE_CHECKPOINT_FAILURE)
            state.abort(pending, reason, certain=True)

    patch.setattr(steps, "on_outcome_unknown", broken)


def expire_while_publishing(patch: Patch) -> None:
    def broken(state: CoordinatorState) -> None:
        for pending in list(state.pending.values()):
            if state.now_ms >= pending.deadline_ms:
                reason = CheckpointFailure(FailureReason.CHECKPOINT_EXPIRED)
                state.abort(pending, reason, certain=True)

    patch.setattr(coordinator, "_expire", broken)


def commit_before_publish(patch: Patch) -> None:
    on_metadata_written = steps.on_metadata_written

    def broken(state: CoordinatorState, event: events.MetadataWritten) -> None:
        on_metadata_written(state, event)
        pending = state.pending.get(event.checkpoint_id)
        if pending is not None:
            state.sinks.add(pending.completed())

    patch.setattr(steps, "on_metadata_written", broken)


def subsume_before_publish(patch: Patch) -> None:
    def broken(state: CoordinatorState, pending: Any) -> None:
        _, dropped = state.store.after_adding(pending.completed())
        for old in dropped:
            if old.is_deletable:
                state.deletions.delete(old)
        state.emit(*state.deletions.start())
        steps.publish(state, pending)

    patch.setattr(coordinator, "publish", broken)
    # The checks inside the coordinator would notice at once; here the outer ones have to.
    patch.setattr(coordinator.CheckpointCoordinator, "validate", lambda _self: None)


def reuse_id(patch: Patch) -> None:
    # The counter lives in memory: after a crash it starts at what was published last.
    patch.setattr(CheckpointIdCounter, "last", lambda _self: 0)
    patch.setattr(CheckpointIdCounter, "reserve", lambda _self, at_least=1: at_least)


def lock_without_epoch(patch: Patch) -> None:
    def broken(
        self: Any, _expected: Any, value: bytes, *, leader_epoch: int, write_id: str
    ) -> Outcome:
        cell = self._store.load()
        record = RecordVersion(1, leader_epoch, write_id, value)
        try:
            self._store.swap(cell, encode_record(record))
        except SwapUnknownError as error:
            return Unknown(_expected, record, str(error))
        return Committed(record)

    patch.setattr(VersionedRecord, "compare_and_set", broken)


def delete_without_epoch(patch: Patch) -> None:
    def broken(self: Any, number: int, paths: list[str]) -> events.Event:
        with contextlib.suppress(FilesError):
            for path in paths:
                self.world.store.delete(path, self.leader_epoch)
        return events.DeletionCompleted(number)

    patch.setattr(SimDriver, "_confirmed_delete", broken)


def release_too_early(patch: Patch) -> None:
    def broken(_self: Any, lowest_id: int) -> list[Any]:
        return [ReleaseSharedFiles(lowest_id + 1)]

    patch.setattr(DeletionQueue, "release", broken)


def forget_uncommitted_output(patch: Patch) -> None:
    def broken(self: Any) -> Snapshot:
        snapshot = Snapshot(self.offset, self.files, self.uncommitted)
        self.uncommitted = ()
        return snapshot

    patch.setattr(Job, "snapshot", broken)


def end_before_output(patch: Patch) -> None:
    patch.setattr(SinkBacklog, "is_clear", True)


BREAKS = [
    delete_on_unknown,
    expire_while_publishing,
    commit_before_publish,
    subsume_before_publish,
    reuse_id,
    lock_without_epoch,
    delete_without_epoch,
    release_too_early,
    forget_uncommitted_output,
    end_before_output,
]


@pytest.mark.simulation
@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_is_caught(broken: Callable[[Patch], None], monkeypatch: Patch) -> None:
    broken(monkeypatch)
    for seed in range(SCHEDULES):
        try:
            World(seed).run()
        except AssertionError as error:
            print(broken.__name__, seed, type(error).__name__, str(error)[:80])
            return
    pytest.fail(f"{SCHEDULES} schedules did not notice {broken.__name__}")
