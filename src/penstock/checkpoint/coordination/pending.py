"""A checkpoint on its way: its phases, and which may follow which.

    WAITING_FOR_EPOCH ─> UPLOADING ─> WRITING_METADATA ─> READY_TO_PUBLISH ─> PUBLISHING ─> done
                                        ⇅                                      ⇅
                                      METADATA_UNKNOWN                        PUBLICATION_UNKNOWN

An intermediate savepoint is done once its metadata is written. From the moment at which the commit
point is under way a checkpoint is not aborted, because it may count already; a savepoint not from
the moment at which its metadata may be there, because people find it by that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.coordination.completed import CompletedCheckpoint, SnapshotKind
from penstock.checkpoint.figures import CheckpointFigures

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.triggering import TriggerRequest


class Phase(Enum):
    """Where a pending checkpoint stands."""

    WAITING_FOR_EPOCH = auto()
    UPLOADING = auto()
    WRITING_METADATA = auto()
    METADATA_UNKNOWN = auto()
    READY_TO_PUBLISH = auto()
    PUBLISHING = auto()
    PUBLICATION_UNKNOWN = auto()


_NEXT: Final = {
    Phase.WAITING_FOR_EPOCH: {Phase.UPLOADING},
    Phase.UPLOADING: {Phase.WRITING_METADATA},
    Phase.WRITING_METADATA: {Phase.METADATA_UNKNOWN, Phase.READY_TO_PUBLISH},
    Phase.METADATA_UNKNOWN: {Phase.METADATA_UNKNOWN, Phase.READY_TO_PUBLISH},
    Phase.READY_TO_PUBLISH: {Phase.PUBLISHING},
    Phase.PUBLISHING: {Phase.PUBLICATION_UNKNOWN},
    Phase.PUBLICATION_UNKNOWN: {Phase.PUBLICATION_UNKNOWN},
}

_METADATA: Final = (Phase.WRITING_METADATA, Phase.METADATA_UNKNOWN, Phase.READY_TO_PUBLISH)
_PUBLICATION: Final = (Phase.PUBLISHING, Phase.PUBLICATION_UNKNOWN)


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """One checkpoint or savepoint that has an id and is not completed."""

    checkpoint_id: int
    request: TriggerRequest  # What asked for it.
    triggered_ms: int
    deadline_ms: int
    phase: Phase = Phase.WAITING_FOR_EPOCH
    epoch: int = 0  # Epoch whose end it holds, from UPLOADING on.
    snapshot: Any = field(default=None, repr=False)  # The job's state at that end; opaque.
    base: CompletedCheckpoint | None = None  # Checkpoint whose files it may refer to.
    uploaded: Any = field(default=None, repr=False)  # What the upload brought; opaque.
    uploaded_ms: int = 0  # When it was done.
    location: str = ""  # Directory of its metadata, once written.
    # What the storage said about the metadata; opaque.
    details: Any = field(default=None, repr=False)
    figures: CheckpointFigures = field(default=CheckpointFigures(), repr=False)
    # When to ask again about an unknown outcome; None while an answer is awaited.
    retry_ms: int | None = None
    retries: int = 0  # How often was asked.

    @property
    def is_savepoint(self) -> bool:
        return self.request.kind is SnapshotKind.SAVEPOINT

    @property
    def is_published(self) -> bool:
        """Whether the pointer will name it: checkpoints, and the savepoint a job stops with.

        Were the latter not published, a crash between its sinks' commit and the end of the job
        would restore an older checkpoint and write the same output again.
        """
        return not self.is_savepoint or self.request.stop

    @property
    def is_publishing(self) -> bool:
        """Whether the pointer may change to it at any moment, or has changed already."""
        return self.phase in _PUBLICATION

    @property
    def is_abortable(self) -> bool:
        """Whether it is certain that nobody has seen it."""
        return not self.is_publishing and not (self.is_savepoint and self.phase in _METADATA)

    @property
    def is_awaiting_metadata(self) -> bool:
        """Whether an answer about its metadata is under way."""
        is_unknown = self.phase is Phase.METADATA_UNKNOWN and self.retry_ms is None
        return is_unknown or self.phase is Phase.WRITING_METADATA

    def moved(self, phase: Phase, **changes: Any) -> PendingCheckpoint:
        """Returns the checkpoint in its next phase."""
        assert phase in _NEXT[self.phase], f"{self.phase} -> {phase} of {self.checkpoint_id}"
        return replace(self, phase=phase, **{"retry_ms": None, **changes})

    def completed(self) -> CompletedCheckpoint:
        """Returns what it becomes once its commit point has passed."""
        return CompletedCheckpoint(
            self.checkpoint_id,
            self.request.kind,
            self.location,
            self.epoch,
            is_deletable=not self.is_savepoint,
            may_be_base=not self.is_savepoint,
            details=self.details,
        )
