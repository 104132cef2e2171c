"""What each instruction of the coordinator is answered, for every outcome of its request."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.checkpoint.coordination import events
from penstock.checkpoint.coordination.checkpoints import (
    CompletedCheckpoint,
    PendingCheckpoint,
    SnapshotKind,
    TriggerRequest,
)
from penstock.checkpoint.coordination.instructions import (
    CommitSinks,
    DeleteCheckpoint,
    DiscardPending,
    Instruction,
    NotifyAborted,
    Publish,
    ReleaseSharedFiles,
    RemovePointers,
    ReReadMetadata,
    ReReadPointer,
    ReserveId,
    Upload,
    WriteMetadata,
)
from penstock.checkpoint.errors import FencedError
from penstock.checkpoint.executor import execute
from penstock.checkpoint.figures import CheckpointFigures
from penstock.core.errors import InputError
from penstock.core.versioned import Committed, RecordVersion, Rejected, Unknown
from penstock.files.errors import StorageError, UnknownOutcomeError
from penstock.files.wrappers import StorageCounts

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = RecordVersion(1, 1, "w", b"")
SEVEN = CompletedCheckpoint(7)
PERIODIC = TriggerRequest(1, 0)
SAVEPOINT = TriggerRequest(1, 0, SnapshotKind.SAVEPOINT, "r", target="there")
SNAPSHOT = SimpleNamespace(sinks={"out": {"pending": []}})
PENDING = PendingCheckpoint(7, PERIODIC, 0, 0, epoch=1, snapshot=SNAPSHOT, uploaded="uploaded")
UPLOAD = Upload(PENDING)
METADATA = WriteMetadata(PENDING, None)
PUBLISH = Publish(7, None, (SEVEN,))


class Files:
    """Answers every request with one result, or raises it; notes the requests."""

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.asked: list[str] = []
        self.storages = SimpleNamespace(counts=StorageCounts())
        self.pointer = SimpleNamespace(
            place="the pointer",
            end=lambda _ids: self._ask("end"),
            settle=lambda: self._ask("settle"),
        )
        self.metadata_under_way = {7: METADATA}

    def _ask(self, name: str) -> Any:
        self.asked.append(name)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: self._ask(name)


class Host:
    """A job without threads; its sinks and its own doings are noted in one list."""

    def __init__(self, files: Files, failure: Exception | None = None) -> None:
        self.files = files
        self.failure = failure

    def steer(self, _instruction: Instruction) -> None:
        self.files.asked.append("steer")

    def in_background(self, work: Callable[[], events.Event]) -> events.Event:
        self.files.asked.append("background")
        return work()

    def figures(self, *_: Any) -> CheckpointFigures:
        return CheckpointFigures(files_new=3)

    def promise(self, _sinks: Any) -> None:
        self.files.asked.append("promise")

    def commit(self, epoch: int, checkpoint_id: int) -> None:
        self.files.asked.append(f"commit {epoch} {checkpoint_id}")
        if self.failure is not None:
            raise self.failure


def obeyed(instruction: Instruction, result: Any = None) -> tuple[events.Event | None, list[str]]:
    files: Any = Files(result)
    host: Any = Host(files)
    return execute(instruction, files, host, host), files.asked


LOADED = SimpleNamespace(directory="chk-7")
STORAGE = StorageError("no")
UNKNOWN = UnknownOutcomeError("lost")
BUG = KeyError("ours")
OUTCOMES: list[tuple[Instruction, Any, events.Event]] = [
    (ReserveId(5), 6, events.IdReserved(6)),
    (ReserveId(5), UNKNOWN, events.IdReservationFailed("lost")),
    (UPLOAD, "plan", events.UploadCompleted(7, "plan", CheckpointFigures(files_new=3))),
    (UPLOAD, STORAGE, events.UploadFailed(7, "no")),
    (UPLOAD, BUG, events.UploadFailed(7, "KeyError: 'ours'")),
    (METADATA, LOADED, events.MetadataWritten(7, "chk-7", LOADED)),
    (METADATA, STORAGE, events.MetadataFailed(7, "no")),
    (METADATA, UNKNOWN, events.MetadataUnknown(7, "lost")),
    (ReReadMetadata(7), LOADED, events.MetadataWritten(7, "chk-7", LOADED)),
    # The first write may still land.
    (ReReadMetadata(7), STORAGE, events.MetadataUnknown(7, "no")),
    (PUBLISH, Committed(VERSION), events.Published(7)),
    (PUBLISH, STORAGE, events.PublicationFailed(7, "no")),
    (PUBLISH, Unknown(None, VERSION, "lost"), events.PublicationUnknown(7, "lost")),
    (ReReadPointer(7), Committed(VERSION), events.Published(7)),
    (ReReadPointer(7), STORAGE, events.PublicationUnknown(7, "no")),
    (DiscardPending(7), None, events.DeletionCompleted(7)),
    (DiscardPending(7), STORAGE, events.DeletionFailed(7, "no")),
    (DeleteCheckpoint(SEVEN), None, events.DeletionCompleted(7)),
    (DeleteCheckpoint(SEVEN), STORAGE, events.DeletionFailed(7, "no")),
    (ReleaseSharedFiles(7), None, events.SharedFilesReleased()),
    (ReleaseSharedFiles(7), STORAGE, events.SharedFilesReleased("no")),
    (RemovePointers((7,)), Committed(VERSION), events.PointersRemoved()),
    (RemovePointers((7,)), None, events.PointersRemoved()),
    (RemovePointers((7,)), STORAGE, events.PointerRemovalUnknown("no")),
]


@pytest.mark.parametrize(("instruction", "result", "answer"), OUTCOMES)
def test_each_outcome_has_its_answer(
    instruction: Instruction, result: Any, answer: events.Event
) -> None:
    assert obeyed(instruction, result)[0] == answer


@pytest.mark.parametrize(
    "instruction",
    [ReserveId(1), DeleteCheckpoint(SEVEN), ReleaseSharedFiles(1), RemovePointers((7,))],
    ids=lambda each: type(each).__name__,
)
def test_refused_writes_are_counted(instruction: Instruction) -> None:
    files: Any = Files(FencedError("another leader"))
    host: Any = Host(files)
    assert execute(instruction, files, host, host) == events.LeadershipLost("another leader")
    assert files.storages.counts.fenced_writes == 1


@pytest.mark.parametrize(
    ("instruction", "kind", "asked"),
    [
        (PUBLISH, events.PublicationRejected, "publish"),
        (RemovePointers((7,)), events.LeadershipLost, "end"),
    ],
)
def test_a_rejected_change_of_the_pointer_counts_as_refused(
    instruction: Instruction, kind: Any, asked: str
) -> None:
    files: Any = Files(Rejected(RecordVersion(3, 9, "x", b""), fenced=True))
    host: Any = Host(files)
    answer = execute(instruction, files, host, host)
    assert isinstance(answer, kind)
    assert "it writes the pointer in epoch 9" in answer.message
    assert files.storages.counts.fenced_writes == 1
    assert files.asked == [asked]


def test_a_savepoint_promises_its_output_before_anything_else_happens() -> None:
    wish = WriteMetadata(replace(PENDING, request=SAVEPOINT), None)
    assert obeyed(wish, LOADED)[1] == ["promise", "background", "write_metadata"]
    assert obeyed(METADATA, LOADED)[1] == ["background", "write_metadata"]


def test_what_is_published_is_registered() -> None:
    assert obeyed(PUBLISH, Committed(VERSION))[1] == ["publish", "register_published"]


def test_deletions_of_aborted_checkpoints_wait_behind_their_uploads() -> None:
    assert obeyed(NotifyAborted(7, Any))[1] == ["stop_writing", "steer"]  # type: ignore[arg-type]
    assert obeyed(DiscardPending(7))[1] == ["background", "discard"]


@pytest.mark.parametrize("failure", [None, RuntimeError("a user's"), InputError("no such table")])
def test_sinks_commit_the_epoch_of_the_checkpoint(failure: Exception | None) -> None:
    files: Any = Files()
    host: Any = Host(files, failure)
    answer = execute(CommitSinks(CompletedCheckpoint(7, epoch=40)), files, host, host)
    assert files.asked == ["commit 40 7"]
    if failure is None:
        assert answer == events.SinksCommitted(7)
    else:
        assert answer == events.SinkCommitFailed(7, str(failure), isinstance(failure, InputError))
