"""Prepared output in files: snapshots hold it as they hold state, and it goes when it is due."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from recovery_kit import Faults, environment, failing_at
from restore_kit import RETAIN, Numbers, Tap, cancel, wait_for

from penstock.connectors.sink import CommitContext, Committer, Sink, SinkWriter, WriterContext
from penstock.core.errors import JobExecutionError
from penstock.core.handles import FileHandle
from penstock.inspection.verify import verify_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable

# A job in this process is cancelled by an exception in its thread, perhaps before a file is closed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

END = 200
SIZES = {"inline": "20 kb", "files": "100"}


class Parcels(Sink):
    """Output in files of the area; what was committed is remembered by the name of its file."""

    shown: ClassVar[dict[str, list[int]]] = {}
    is_open: ClassVar[bool] = True
    refused: ClassVar[int] = 0

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(context)

    def create_committer(self) -> Committer:
        return _Committer()

    @classmethod
    def all(cls) -> list[int]:
        return sorted(value for values in list(cls.shown.values()) for value in values)


class _Writer(SinkWriter):
    def __init__(self, context: WriterContext) -> None:
        assert context.area is not None
        self.area = context.area
        self.name = f"{context.attempt_id}-{context.subtask}.parcel"
        self.values: list[int] = []

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        self.values += values

    def prepare_commit(self) -> list[Any]:
        handle = self.area.write(self.name, json.dumps(self.values).ljust(120).encode())
        return [[handle.name, handle.size_bytes, handle.sha256, handle.inline]]


class _Committer(Committer):
    def files(self, committable: Any) -> Iterable[FileHandle]:
        return [FileHandle(*committable)]

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        if not Parcels.is_open:
            Parcels.refused += 1
            raise JobExecutionError("not today")
        assert context.area is not None
        for committable in committables:
            Parcels.shown[committable[0]] = json.loads(context.area.read(FileHandle(*committable)))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Faults.hit.clear()
    Parcels.shown, Parcels.is_open, Parcels.refused, Tap.limit = {}, True, 0, 0


def start(directory: Path, threshold: str, parallelism: int = 2, **options: str) -> Any:
    env = environment(
        directory,
        parallelism,
        {
            **RETAIN,
            "execution.checkpointing.data-inline-threshold": threshold,
            "execution.checkpointing.tolerable-failed-checkpoints": "1000",
            "penstock.epoch.max-records": "16",
            **{key.replace("__", "."): value for key, value in options.items()},
        },
    )
    numbers = env.add_source(Numbers()).uid("numbers").map(failing_at([150], "poison"))
    numbers.sink_to(Parcels()).uid("out")
    return env.execute_async()


def left(directory: Path) -> list[Path]:
    return list((directory / "tmp").rglob("*.parcel*"))


def stored(directory: Path) -> list[Path]:
    shared = list(directory.glob("checkpoints/*/shared/*"))
    return [path for path in shared if path.exists() and path.read_bytes()[:1] == b"["]


@pytest.mark.parametrize("incremental", ["true", "false"])
@pytest.mark.parametrize("threshold", SIZES.values(), ids=SIZES)
def test_a_savepoint_that_owes_output_is_all_that_is_needed(
    tmp_path: Path, threshold: str, incremental: str
) -> None:
    Faults.hit.add("poison-150")
    Parcels.is_open = False
    first = tmp_path / "first"
    options = {"execution__checkpointing__incremental": incremental}
    client = start(first, threshold, **options)
    Tap.limit = END
    wait_for(lambda: Parcels.refused, "a commit")
    savepoint = client.trigger_savepoint().result(200)
    cancel(client)
    moved = tmp_path / "moved"
    Path(savepoint).rename(moved)
    shutil.rmtree(first)
    assert verify_snapshots(str(moved))["is_whole"]
    Parcels.is_open = True
    client = start(tmp_path / "2", threshold, 3, **{"execution.state-recovery.path": str(moved)})
    wait_for(lambda: len(Parcels.all()) >= END, "all of it")
    cancel(client)
    assert Parcels.all() == list(range(END))


@pytest.mark.parametrize("incremental", ["true", "false"])
def test_a_checkpoint_survives_the_disk_of_the_job(tmp_path: Path, incremental: str) -> None:
    """The process and its machine are gone; what was owed is in the checkpoint storage."""
    Faults.hit.add("poison-150")
    Parcels.is_open = False
    options = {"execution__checkpointing__incremental": incremental}
    client = start(tmp_path, "100", **options)
    Tap.limit = END
    wait_for(lambda: Parcels.refused, "a commit")
    client.trigger_checkpoint().result(200)
    cancel(client)
    shutil.rmtree(tmp_path / "tmp")
    (retained,) = (tmp_path / "checkpoints").glob("*/chk-*")
    Parcels.is_open = True
    client = start(
        tmp_path, "100", 1, **{"execution.state-recovery.path": str(retained)}, **options
    )
    wait_for(lambda: len(Parcels.all()) >= END, "all of it")
    cancel(client)
    assert Parcels.all() == list(range(END))


def test_a_lost_file_of_owed_output_is_found_before_it_is_needed(tmp_path: Path) -> None:
    Faults.hit.add("poison-150")
    Parcels.is_open = False
    client = start(tmp_path, "100")
    Tap.limit = END
    wait_for(lambda: Parcels.refused, "a commit")
    savepoint = Path(client.trigger_savepoint().result(200))
    cancel(client)
    report = verify_snapshots(str(savepoint))
    assert report["is_whole"]
    # State of the source's logic and of no function is inline or small; parcels are the rest.
    for path in savepoint.iterdir():
        if b"[" in path.read_bytes()[:1]:
            path.unlink()
    report = verify_snapshots(str(savepoint))
    (snapshot,) = report["snapshots"]
    assert {user for each in snapshot["problems"] for user in each["used_by"]} == {"out (output)"}


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_committed_goes_and_what_a_failed_attempt_left(
    tmp_path: Path, fails: bool
) -> None:
    if not fails:
        Faults.hit.add("poison-150")
    client = start(tmp_path, "100", execution__checkpointing__incremental="true")
    Tap.limit = END
    wait_for(lambda: len(Parcels.all()) >= END, "all of it")
    assert Parcels.all() == list(range(END))
    assert "poison-150" in Faults.hit
    # Behind two more checkpoints nothing names a parcel any more.
    for _ in range(2):
        client.trigger_checkpoint().result(200)
    wait_for(lambda: not left(tmp_path), "the local files to go")
    if not fails:
        # A checkpoint that failed with its attempt may leave shared files, to the sweep.
        wait_for(lambda: not stored(tmp_path), "the shared files to go")
    cancel(client)
