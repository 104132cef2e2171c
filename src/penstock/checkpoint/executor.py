"""Carries out the coordinator's instructions: the commit protocol, top to bottom.

`execute` is the only place that obeys them. A running job calls it from the thread that drives the
coordinator (`service`), the clean-up after a dead process in a loop; tests pass fakes. Each
instruction has exactly one answer, or none; where the outcome of a request is unknown, the answer
says so and the coordinator asks again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.errors import FencedError
from penstock.checkpoint.pointer import rejection_text
from penstock.core.errors import PenstockError, is_lasting
from penstock.core.fault_points import fault_span
from penstock.core.versioned import Committed, Outcome, Rejected, Unknown
from penstock.files.errors import UnknownOutcomeError

if TYPE_CHECKING:
    from penstock.checkpoint.figures import CheckpointFigures
    from penstock.checkpoint.files import CheckpointFiles
    from penstock.checkpoint.upload_plan import UploadPlan
    from penstock.core.times import Clock

_log = logging.getLogger("penstock.checkpoint")
SLOW_COMMIT_MS: Final = 60_000
"""How long a commit may take before it is warned of."""

# Where processes of tests die: the steps of the commit protocol.
_ID: Final = fault_span("checkpoint.id")
_UPLOAD: Final = fault_span("checkpoint.upload")
_ACKNOWLEDGE: Final = fault_span("checkpoint.acknowledge")
_METADATA: Final = fault_span("checkpoint.metadata")
_POINTER: Final = fault_span("checkpoint.pointer")
_REGISTRY: Final = fault_span("checkpoint.registry")
_SINKS: Final = fault_span("sink.commit")
_DISCARD: Final = fault_span("checkpoint.discard")
_DELETE: Final = fault_span("checkpoint.delete")
_RELEASE: Final = fault_span("checkpoint.release")
_REMOVAL: Final = fault_span("checkpoint.removal")


class Sinks(Protocol):
    """Output that was prepared and waits for its commit."""

    def promise(self, sinks: dict[str, Any]) -> None:
        """Never removes what these owed commits name: a savepoint with them is about to exist."""

    def commit(self, epoch: int, checkpoint_id: int) -> None:
        """Makes everything visible that was prepared up to an epoch."""


class WatchedSinks:
    """The sinks of a running job, whose commits are code of others and may not return."""

    def __init__(self, sinks: Sinks, clock: Clock) -> None:
        self._sinks = sinks
        self._clock = clock
        self._commits: tuple[int, int] | None = None
        """The checkpoint whose output is being committed, and since when."""
        self._told_of = 0

    def promise(self, sinks: dict[str, Any]) -> None:
        """Hands on."""
        self._sinks.promise(sinks)

    def commit(self, epoch: int, checkpoint_id: int) -> None:
        """Hands on, and notes since when."""
        self._commits = checkpoint_id, self._clock.monotonic_ms()
        try:
            self._sinks.commit(epoch, checkpoint_id)
        finally:
            self._commits = None

    @property
    def is_committing(self) -> bool:
        return self._commits is not None

    def watch(self) -> None:
        """Warns, once, of a commit that does not end; from any other thread."""
        checkpoint_id, since_ms = self._commits or (self._told_of, 0)
        if checkpoint_id == self._told_of:
            return
        if self._clock.monotonic_ms() - since_ms >= SLOW_COMMIT_MS:
            self._told_of = checkpoint_id
            _log.warning(
                "The output of checkpoint %d has been committed for %g s. Until that ends, no "
                "checkpoint completes. Does the server of a sink answer? A timeout of its client "
                "would end the wait; a cancellation of the job does, too.",
                checkpoint_id,
                SLOW_COMMIT_MS / 1000,
            )


class Host(Protocol):
    """What runs the coordinator: a job, or the clean-up after one."""

    def steer(self, instruction: instructions.Steering) -> None:
        """Does what is not about storage."""

    def in_background(self, work: Callable[[], events.Event]) -> events.Event | None:
        """Does work in its turn, so that time-outs and requests are heard meanwhile.

        Returns its answer, or None if the answer comes later.
        """

    def figures(self, instruction: instructions.Upload, plan: UploadPlan) -> CheckpointFigures:
        """Returns what a checkpoint took, now that all its files are safe."""


def execute(  # noqa: PLR0911, PLR0912 - one case for each instruction
    instruction: instructions.Instruction, files: CheckpointFiles, sinks: Sinks, host: Host
) -> events.Event | None:
    """Obeys one instruction; returns what came of it, for the coordinator.

    None if there is nothing to say, or not yet.

    Args:
        instruction: What the coordinator says.
        files: The job's durable files.
        sinks: Its output.
        host: The job itself.
    """
    match instruction:
        case instructions.ReserveId():
            return _reserve_id(instruction, files)
        case instructions.ScheduleTick() | instructions.RequestSnapshot():
            host.steer(instruction)
        case instructions.Upload():
            return host.in_background(lambda: _upload(instruction, files, host))
        case instructions.WriteMetadata():
            if instruction.checkpoint.is_savepoint:
                # Before anything else happens: a recovery removes what nothing has promised.
                sinks.promise(instruction.checkpoint.snapshot.sinks)
            return host.in_background(lambda: _write_metadata(instruction, files))
        case instructions.ReReadMetadata(checkpoint_id):
            # Writing is idempotent: the same bytes under the same name are found to be ours.
            written = files.metadata_under_way[checkpoint_id]
            return host.in_background(lambda: _write_metadata(written, files, is_open=True))
        case instructions.Publish(checkpoint_id):
            return _publish(checkpoint_id, files, lambda: files.publish(instruction))
        case instructions.ReReadPointer(checkpoint_id):
            return _publish(checkpoint_id, files, files.pointer.settle, is_open=True)
        case instructions.CommitSinks():
            return _commit_sinks(instruction, sinks)
        case instructions.NotifyCompleted(checkpoint):
            files.forget(checkpoint.checkpoint_id)
            host.steer(instruction)
        case instructions.NotifyAborted(checkpoint_id):
            files.stop_writing(checkpoint_id)
            host.steer(instruction)
        case instructions.DiscardPending(checkpoint_id):
            # Behind the upload, in its thread: a late writer must not make the directory again.
            return host.in_background(lambda: _discard(checkpoint_id, files))
        case instructions.DeleteCheckpoint():
            return _delete(instruction, files)
        case instructions.ReleaseSharedFiles(lowest_id):
            return _release_shared(lowest_id, files)
        case instructions.RemovePointers(checkpoint_ids):
            return _remove_pointers(checkpoint_ids, files)
        case _:
            # All the rest is not about storage; a type checker sees that nothing else is left.
            host.steer(instruction)
    return None


# -- P0 to P6 -------------------------------------------------------------------------------------


def _reserve_id(instruction: instructions.ReserveId, files: CheckpointFiles) -> events.Event:
    try:
        with _ID:
            return events.IdReserved(files.reserve_id(instruction.at_least))
    except FencedError as error:
        return _lost(files, error)
    except PenstockError as error:
        return events.IdReservationFailed(str(error))


def _upload(instruction: instructions.Upload, files: CheckpointFiles, host: Host) -> events.Event:
    number = instruction.checkpoint.checkpoint_id
    try:
        with _UPLOAD:
            uploaded = files.upload(instruction)
        with _ACKNOWLEDGE:
            figures = host.figures(instruction, uploaded)
    except Exception as error:
        return events.UploadFailed(number, _text(error))
    return events.UploadCompleted(number, uploaded, figures)


def _write_metadata(
    instruction: instructions.WriteMetadata, files: CheckpointFiles, *, is_open: bool = False
) -> events.Event:
    number = instruction.checkpoint.checkpoint_id
    try:
        with _METADATA:
            loaded = files.write_metadata(instruction)
    except UnknownOutcomeError as error:
        return events.MetadataUnknown(number, str(error))
    except Exception as error:
        if is_open:
            # The first write may still land, so a failure of this one proves nothing.
            return events.MetadataUnknown(number, _text(error))
        return events.MetadataFailed(number, _text(error))
    return events.MetadataWritten(number, loaded.directory, loaded)


# -- P7: the commit point -------------------------------------------------------------------------


def _publish(
    number: int, files: CheckpointFiles, publish: Callable[[], Outcome], *, is_open: bool = False
) -> events.Event:
    with _POINTER:
        try:
            outcome = publish()
        except PenstockError as error:
            # While the outcome is open, an error says nothing about it.
            failed = events.PublicationUnknown if is_open else events.PublicationFailed
            return failed(number, str(error))
        if isinstance(outcome, Committed):
            with _REGISTRY:
                files.register_published()
            return events.Published(number)
        if isinstance(outcome, Unknown):
            return events.PublicationUnknown(number, outcome.reason)
        files.storages.counts.note_fenced()
        return events.PublicationRejected(number, rejection_text(outcome, files.pointer.place))


# -- P9, P11 --------------------------------------------------------------------------------------


def _commit_sinks(instruction: instructions.CommitSinks, sinks: Sinks) -> events.Event:
    number = instruction.checkpoint.checkpoint_id
    try:
        with _SINKS:
            sinks.commit(instruction.checkpoint.epoch, number)
    except Exception as error:
        return events.SinkCommitFailed(number, str(error), is_lasting(error))
    return events.SinksCommitted(number)


def _discard(number: int, files: CheckpointFiles) -> events.Event:
    try:
        with _DISCARD:
            files.discard(number)
    except Exception as error:
        return events.DeletionFailed(number, _text(error))
    return events.DeletionCompleted(number)


def _delete(instruction: instructions.DeleteCheckpoint, files: CheckpointFiles) -> events.Event:
    number = instruction.checkpoint.checkpoint_id
    try:
        with _DELETE:
            files.delete(instruction.checkpoint)
    except FencedError as error:
        return _lost(files, error)
    except PenstockError as error:
        return events.DeletionFailed(number, str(error))
    return events.DeletionCompleted(number)


def _release_shared(lowest_id: int, files: CheckpointFiles) -> events.Event:
    try:
        with _RELEASE:
            files.release_shared(lowest_id)
    except FencedError as error:
        return _lost(files, error)
    except PenstockError as error:
        _log.warning("Shared files could not be deleted: %s", error)
        return events.SharedFilesReleased(str(error))
    return events.SharedFilesReleased()


def _remove_pointers(checkpoint_ids: tuple[int, ...], files: CheckpointFiles) -> events.Event:
    try:
        with _REMOVAL:
            outcome = files.pointer.end(checkpoint_ids)
    except FencedError as error:
        return _lost(files, error)
    except PenstockError as error:
        return events.PointerRemovalUnknown(str(error))
    if outcome is None or isinstance(outcome, Committed):
        return events.PointersRemoved()
    if isinstance(outcome, Rejected) and outcome.fenced:
        return _lost(files, FencedError(rejection_text(outcome, files.pointer.place)))
    return events.PointerRemovalUnknown("the pointer could not be changed")


def _lost(files: CheckpointFiles, error: FencedError) -> events.Event:
    files.storages.counts.note_fenced()
    return events.LeadershipLost(str(error))


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__}: {error}"
