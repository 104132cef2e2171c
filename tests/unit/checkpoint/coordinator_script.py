"""Plays a coordinator by hand: answers what a test leaves out, and remembers all instructions."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.coordination.checkpoints import SnapshotKind, TriggerRequest
from penstock.checkpoint.coordination.coordinator import CheckpointCoordinator
from penstock.checkpoint.settings import CheckpointSettings

T = TypeVar("T")


class Script:
    """One coordinator, its time, and what it has said."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("interval_ms", 1_000)
        self.coordinator = CheckpointCoordinator(CheckpointSettings(**settings))
        self.now_ms = 0
        self.said: list[instructions.Instruction] = []
        self._reserved = 0

    def at(self, now_ms: int, event: events.Event | None = None) -> list[instructions.Instruction]:
        """Hands over an event, `Ticked` by default, and returns what it led to."""
        self.now_ms = now_ms
        if isinstance(event, events.IdReserved | events.IdReservationFailed):
            self._reserved += 1
        said = self.coordinator.handle(event or events.Ticked(), now_ms)
        self.coordinator.validate()
        self.said += said
        return said

    def now(self, event: events.Event) -> list[instructions.Instruction]:
        return self.at(self.now_ms, event)

    def start(self, first_delay_ms: int = 0) -> Script:
        self.at(self.now_ms, events.Started(first_delay_ms))
        return self

    def trigger(self, checkpoint_id: int, at_ms: int) -> None:
        """A periodic checkpoint gets its id."""
        self.at(at_ms)
        asked = len(of(self.said, instructions.ReserveId))
        assert asked > self._reserved, f"nothing triggered at {at_ms}"
        self.now(events.IdReserved(checkpoint_id))

    def upload(self, *checkpoint_ids: int) -> None:
        """The epoch ends."""
        self.now(events.EpochCompleted(1, "state"))

    def write(self, checkpoint_id: int) -> list[instructions.Instruction]:
        """Uploads and writes the metadata of a checkpoint whose epoch has ended."""
        self.now(events.UploadCompleted(checkpoint_id))
        return self.now(events.MetadataWritten(checkpoint_id, f"chk-{checkpoint_id}"))

    def finish(self, checkpoint_id: int) -> list[instructions.Instruction]:
        """Everything from the end of the epoch to the commit point."""
        self.upload()
        self.write(checkpoint_id)
        return self.now(events.Published(checkpoint_id))

    def clean(self, checkpoint_id: int, *deleted: int) -> None:
        """Sinks and deletions answer."""
        self.now(events.SinksCommitted(checkpoint_id))
        for old in deleted:
            self.now(events.DeletionCompleted(old))
        self.now(events.SharedFilesReleased())

    def complete(self, checkpoint_id: int, at_ms: int, *deleted: int) -> None:
        """A whole periodic checkpoint in no time."""
        self.trigger(checkpoint_id, at_ms)
        self.finish(checkpoint_id)
        self.clean(checkpoint_id, *deleted)

    def ask(self, kind: SnapshotKind, request_id: str = "r", **more: Any) -> list[Any]:
        if kind is SnapshotKind.SAVEPOINT:
            more.setdefault("target", "somewhere")
        request = TriggerRequest(kind=kind, request_id=request_id, **more)
        return self.now(events.TriggerRequested(request))


def stop_requested(*, drain: bool = False, target: str | None = None) -> events.TriggerRequested:
    savepoint = SnapshotKind.SAVEPOINT
    return events.TriggerRequested(
        TriggerRequest(kind=savepoint, request_id="stop", target=target, stop=True, drain=drain)
    )


def of(said: list[Any], kind: type[T]) -> list[T]:
    return [each for each in said if isinstance(each, kind)]


def one(said: list[Any], kind: type[T]) -> T | None:
    found = of(said, kind)
    assert len(found) <= 1, f"{found}"
    return found[0] if found else None


def failures(said: list[Any]) -> list[tuple[int, str]]:
    """Checkpoints that failed, with the reason."""
    aborted = of(said, instructions.NotifyAborted)
    return [(each.checkpoint_id, each.failure.reason.name) for each in aborted]


def declined(said: list[Any]) -> list[str]:
    """Reasons of requests that failed without an id."""
    return [each.failure.reason.name for each in of(said, instructions.DeclineTrigger)]


def deleted(said: list[Any]) -> list[int]:
    return [each.checkpoint.checkpoint_id for each in of(said, instructions.DeleteCheckpoint)]


def publishing(*, retained: int = 1, checkpoint_id: int = 2) -> Script:
    """Checkpoint 1 is complete, the next one is being published."""
    script = Script(num_retained=retained, timeout_ms=500, tolerable_failures=9).start()
    script.complete(1, 0)
    script.trigger(checkpoint_id, 1_000)
    script.upload()
    said = script.write(checkpoint_id)
    publish = one(said, instructions.Publish)
    assert publish is not None
    assert publish.parent_id == 1
    return script
