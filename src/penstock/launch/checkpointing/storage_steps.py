"""Obeys those of the coordinator's instructions that touch storage and sinks.

Each does one thing and posts what came of it. Uploads and metadata are written by a thread of
their own, so that time-outs and requests are heard meanwhile; the rest is quick, and done in place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.coordination import events, instructions
from penstock.checkpoint.coordination.completed import SnapshotKind
from penstock.checkpoint.errors import FencedError, UnknownOutcomeError
from penstock.checkpoint.pointer import rejection_text
from penstock.core.errors import PenstockError
from penstock.core.fault_points import fault_span
from penstock.core.versioned import Committed, Outcome, Unknown
from penstock.launch.checkpointing.details import loaded_of

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.coordinator import CheckpointCoordinator
    from penstock.launch.checkpointing.effects import SnapshotEffects
    from penstock.launch.checkpointing.figures import TaskFigureBook
    from penstock.runtime.sinks import SinkCommits

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


class StorageSteps:
    """One method for each instruction, called after it.

    Args:
        job_id: Names the thread.
        effects: Does the work.
        sinks: Commits output.
        post: Takes the answers.
        book: Knows what each task contributed.
    """

    def __init__(
        self,
        job_id: str,
        effects: SnapshotEffects,
        sinks: SinkCommits,
        post: Callable[[events.Event], None],
        book: TaskFigureBook,
    ) -> None:
        self._effects = effects
        self._sinks = sinks
        self._post = post
        self._book = book
        self._log = logging.getLogger("penstock.checkpoint")
        self._uploads: dict[int, Any] = {}
        self._unknown: Unknown | None = None
        self._rewrites: dict[int, instructions.WriteMetadata] = {}
        self._publishing: instructions.Publish | None = None
        self.is_committing = False
        """Whether a committer of the user's is at work, which may not return."""
        self._writer = ThreadPoolExecutor(1, f"penstock-snapshots-{job_id[:8]}")

    def close(self) -> None:
        """Ends the thread."""
        self._writer.shutdown(wait=False, cancel_futures=True)

    def on_ReserveId(self, wish: instructions.ReserveId) -> None:
        try:
            with _ID:
                number = self._effects.reserve_id(wish.at_least)
        except FencedError as error:
            self._note_rival(error)
        except PenstockError as error:
            self._post(events.IdReservationFailed(str(error)))
        else:
            self._post(events.IdReserved(number))

    def on_Upload(self, wish: instructions.Upload) -> None:
        def work() -> events.Event:
            number = wish.checkpoint_id
            try:
                with _UPLOAD:
                    uploaded = self._effects.upload(wish)
            except PenstockError as error:
                return events.UploadFailed(number, str(error))
            with _ACKNOWLEDGE:
                self._uploads[number] = uploaded
            return events.UploadCompleted(number, uploaded, self._book.figures(wish, uploaded))

        self._in_background(work, lambda error: events.UploadFailed(wish.checkpoint_id, error))

    def on_WriteMetadata(self, wish: instructions.WriteMetadata) -> None:
        if wish.request.kind is SnapshotKind.SAVEPOINT:
            self._sinks.promise(wish.snapshot.sinks)
        self._rewrites[wish.checkpoint_id] = wish
        self._write_metadata(wish, events.MetadataFailed)

    def _write_metadata(
        self,
        wish: instructions.WriteMetadata,
        failed: type[events.MetadataFailed | events.MetadataUnknown],
    ) -> None:
        def work() -> events.Event:
            try:
                with _METADATA:
                    loaded = self._effects.write_metadata(wish)
            except UnknownOutcomeError as error:
                return events.MetadataUnknown(wish.checkpoint_id, str(error))
            except PenstockError as error:
                return failed(wish.checkpoint_id, str(error))
            return events.MetadataWritten(wish.checkpoint_id, loaded.directory, loaded)

        self._in_background(work, lambda error: failed(wish.checkpoint_id, error))

    def on_ReReadMetadata(self, wish: instructions.ReReadMetadata) -> None:
        # Writing is idempotent: the same bytes under the same name are found to be ours.
        if wish.checkpoint_id in self._rewrites:
            # The first write may still land, so a failure of this one proves nothing.
            self._write_metadata(self._rewrites[wish.checkpoint_id], events.MetadataUnknown)

    def _in_background(
        self, work: Callable[[], events.Event], failed: Callable[[str], events.Event]
    ) -> None:
        def run() -> None:
            try:
                self._post(work())
            except Exception as error:
                self._post(failed(f"{type(error).__name__}: {error}"))

        self._writer.submit(run)

    def on_Publish(self, wish: instructions.Publish) -> None:
        self._publishing = wish
        with _POINTER:
            self._answer_publication(wish.checkpoint_id, lambda: self._effects.publish(wish))

    def on_ReReadPointer(self, wish: instructions.ReReadPointer) -> None:
        unknown = self._unknown
        assert unknown is not None
        self._answer_publication(
            wish.checkpoint_id, lambda: self._effects.pointer.settle(unknown), is_open=True
        )

    def _answer_publication(
        self, number: int, publish: Callable[[], Outcome], *, is_open: bool = False
    ) -> None:
        try:
            outcome = publish()
        except PenstockError as error:
            # While the outcome is open, an error says nothing about it.
            if is_open:
                self._post(events.PublicationUnknown(number, str(error)))
            else:
                self._post(events.PublicationFailed(number, str(error)))
            return
        if isinstance(outcome, Committed):
            assert self._publishing is not None
            with _REGISTRY:
                self._effects.register(self._publishing.retained[-1])
            self._post(events.Published(number))
        elif isinstance(outcome, Unknown):
            self._unknown = outcome
            self._post(events.PublicationUnknown(number, outcome.reason))
        else:
            self._effects.storages.counts.note_fenced()
            text = rejection_text(outcome, self._effects.pointer.place)
            self._post(events.PublicationRejected(number, text))

    def forget(self, number: int) -> None:
        """A checkpoint has completed: what was remembered for taking it back may go."""
        self._uploads.pop(number, None)
        self._rewrites.pop(number, None)

    def on_CommitSinks(self, wish: instructions.CommitSinks) -> None:
        number = wish.checkpoint.checkpoint_id
        self.is_committing = True
        try:
            with _SINKS:
                self._sinks.commit(wish.checkpoint.epoch, number)
        except Exception as error:
            self._post(events.SinkCommitFailed(number, str(error)))
        else:
            self._post(events.SinksCommitted(number))
        finally:
            self.is_committing = False

    def on_DiscardPending(self, wish: instructions.DiscardPending) -> None:
        number = wish.checkpoint_id

        def work() -> events.Event:
            uploaded = self._uploads.get(number)
            self.forget(number)
            try:
                with _DISCARD:
                    self._effects.discard(number, uploaded)
            except PenstockError as error:
                return events.DeletionFailed(number, str(error))
            return events.DeletionCompleted(number)

        # Behind the upload, in its thread: a late writer must not make the directory anew.
        self._in_background(work, lambda error: events.DeletionFailed(number, error))

    def on_DeleteCheckpoint(self, wish: instructions.DeleteCheckpoint) -> None:
        checkpoint = wish.checkpoint
        self._delete(checkpoint.checkpoint_id, lambda: self._effects.delete(checkpoint))

    def _delete(self, number: int, delete: Callable[[], None]) -> None:
        try:
            with _DELETE:
                delete()
        except PenstockError as error:
            self._post(events.DeletionFailed(number, str(error)))
            self._note_rival(error)
        else:
            self._post(events.DeletionCompleted(number))

    def on_ReleaseSharedFiles(self, wish: instructions.ReleaseSharedFiles) -> None:
        failed: PenstockError | None = None
        try:
            with _RELEASE:
                self._effects.release_shared(wish.lowest_id)
        except PenstockError as error:
            self._log.warning("Shared files could not be deleted: %s", error)
            failed = error
        self._post(events.SharedFilesReleased())
        self._note_rival(failed)

    def _note_rival(self, error: PenstockError | None) -> None:
        if isinstance(error, FencedError):
            self._effects.storages.counts.note_fenced()
            self._post(events.LeadershipLost(str(error)))

    def sweep(self, now_ms: int, coordinator: CheckpointCoordinator) -> None:
        """Goes on with the search for files that nothing names."""
        self._effects.orphans.poke(
            now_ms, coordinator.lowest_unfinished_id, lambda: map(loaded_of, coordinator.needed)
        )

    def sweep_at_end(self, coordinator: CheckpointCoordinator) -> None:
        """The job is over and nothing is written any more."""
        self._effects.orphans.finish(coordinator.last_id, map(loaded_of, coordinator.needed))

    def on_RemovePointers(self, wish: instructions.RemovePointers) -> None:
        try:
            with _REMOVAL:
                outcome = self._effects.pointer.end(wish.checkpoint_ids)
        except PenstockError as error:
            self._post(events.PointerRemovalUnknown(str(error)))
            return
        if outcome is None or isinstance(outcome, Committed):
            self._post(events.PointersRemoved())
        else:
            self._post(events.PointerRemovalUnknown("the pointer could not be changed"))
