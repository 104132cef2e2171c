"""What a job checks and cleans in its checkpoint directory, and sinks that fail for ever.

Jobs run in this process; files are put into the directory behind the job's back.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
from recovery_kit import environment

from penstock.checkpoint.coordination import state
from penstock.checkpoint.orphans import OrphanSweep, list_orphans
from penstock.checkpoint.paths import CheckpointLayout
from penstock.checkpoint.snapshot_load import load_snapshot
from penstock.common import Encoder
from penstock.connectors.file_sink.parts import FileCommitter
from penstock.core.errors import JobExecutionError, PenstockError
from penstock.core.times import SystemClock
from penstock.datastream.connectors import FileSink, PythonSource
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.files.errors import StorageError
from penstock.files.urls import Storages

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import StreamExecutionEnvironment

DAY_S = 24 * 60 * 60


class Ticks(PythonSource):
    """Three records, and then silence."""

    def splits(self) -> list[str]:
        return ["0"]

    def latest_offset(self, split: str) -> int:
        return 3

    def read(self, split: str, start: int, end: int) -> Any:
        return range(start, end)


class Count(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield value


def program(env: StreamExecutionEnvironment) -> Any:
    counted = env.add_source(Ticks()).uid("ticks").key_by(lambda value: value % 2)
    counted.process(Count()).uid("count").print().uid("print")
    return env.execute_async("directory")


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def planted(directory: Path, number: int, age_s: float, writer: str = "dead") -> Path:
    """A file as a writer that died would leave it."""
    content = f"{number}-{writer}-{age_s}".encode()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{hashlib.sha256(content).hexdigest()}-{number}-{writer}"
    path.write_bytes(content)
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    return path


def test_old_orphans_go_and_young_ones_and_other_files_stay(tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    first = program(environment(tmp_path, 1, options))
    number = first.trigger_checkpoint().result()
    first.cancel()
    with pytest.raises(JobExecutionError, match="cancelled"):
        first.get_job_execution_result().result()
    job_directory = tmp_path / "checkpoints" / str(first.get_job_id())
    named = {path for path in job_directory.rglob("*") if path.is_file()}
    assert len(named) > 3
    old = planted(job_directory / "shared", number, 2 * DAY_S)
    young = planted(job_directory / "shared", number, 60)
    future = planted(job_directory / "shared", 10**6, 2 * DAY_S)
    foreign = job_directory / "shared" / "notes.txt"
    foreign.write_text("mine")
    os.utime(foreign, (0, 0))

    # Found from outside, without deleting anything.
    orphans = list_orphans(Storages(), str(job_directory), now_ms=int(time.time() * 1000))
    listed = {job_directory.parent / orphan.key: orphan for orphan in orphans}
    assert set(listed) == {old, young, future}
    assert not listed[young].is_deletable
    assert not listed[future].is_deletable
    assert old.exists()
    # The same without a pointer, which may be kept elsewhere.
    hidden = (job_directory / "pointer").rename(tmp_path / "pointer")
    again = list_orphans(Storages(), str(job_directory), now_ms=int(time.time() * 1000))
    assert {orphan.key for orphan in again} == {orphan.key for orphan in orphans}
    hidden.rename(job_directory / "pointer")

    storages = Storages()
    sweep = OrphanSweep(
        storages.at(str(job_directory.parent)),
        CheckpointLayout(job_directory.name),
        "me",
        DAY_S * 1000,
        SystemClock(),
        lambda: None,
    )
    loaded = load_snapshot(storages, str(job_directory / f"chk-{number}"))

    def gone() -> bool:
        sweep.poke(0, number + 1, lambda: [loaded])
        return not old.exists()

    wait_until(gone, "the old orphan was not swept")
    assert young.exists()
    assert future.exists()
    assert foreign.exists()
    assert all(path.exists() for path in named), "a file that a checkpoint names was swept"
    sweep.close()


def test_a_running_job_sweeps_its_directory(tmp_path: Path) -> None:
    """At the start, when the directory holds what an earlier attempt of the job left."""
    job = program(environment(tmp_path, 1, {"execution.checkpointing.interval": "1 h"}))
    job.trigger_checkpoint().result()
    job_directory = tmp_path / "checkpoints" / str(job.get_job_id())
    service = job._job._service
    old = planted(job_directory / "shared", 1, 2 * DAY_S)
    sweep = service._files.orphans
    sweep._due_ms = 0  # An hour has passed.
    wait_until(lambda: not old.exists(), "the hourly sweep did not come")
    job.cancel()


def test_the_end_of_a_job_removes_what_its_aborted_checkpoints_left(tmp_path: Path) -> None:
    job = program(environment(tmp_path, 1, {"execution.checkpointing.interval": "1 h"}))
    job.trigger_checkpoint().result()
    job_directory = tmp_path / "checkpoints" / str(job.get_job_id())
    writer = job._job._service._files._writer_id
    own = planted(job_directory / "shared", 1, 1, writer)
    other = planted(job_directory / "shared", 1, 1, "somebody")
    job.cancel()
    with pytest.raises(JobExecutionError, match="cancelled"):
        job.get_job_execution_result().result()
    assert not own.exists()
    assert other.exists(), "it may be of a writer that still lives, and is young"


def test_a_directory_that_is_a_file_is_refused_before_the_first_record(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    job = program(environment(tmp_path))
    with pytest.raises(
        StorageError, match=r"cannot hold checkpoints.*Nothing was started"
    ) as caught:
        job.get_job_execution_result().result()
    assert "is a file" in str(caught.value) or "Not a directory" in str(caught.value)
    assert job._job.records_read == 0


@pytest.mark.usefixtures("bound_by_permissions")
def test_a_directory_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir(mode=0o500)
    job = program(environment(tmp_path))
    with pytest.raises(StorageError, match="write permission"):
        job.get_job_execution_result().result()


def test_a_sink_that_never_commits_fails_the_job_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "COMMIT_TRIES", 2)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("the table does not exist")

    monkeypatch.setattr(FileCommitter, "commit", refuse)
    env = environment(
        tmp_path,
        1,
        {
            "restart-strategy.fixed-delay.attempts": "1",
            "execution.checkpointing.interval": "20 ms",
        },
    )
    counted = env.add_source(Ticks()).uid("ticks").key_by(lambda value: value % 2)
    out = counted.process(Count()).uid("count").map(str)
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    out.sink_to(sink).uid("out")
    with pytest.raises(JobExecutionError, match="could not be committed") as caught:
        env.execute("refused")
    assert "sink 'out': OSError: the table does not exist\nTraceback" in str(caught.value)
    assert 'raise OSError("the table does not exist")' in str(caught.value)
    kept = [*(tmp_path / "checkpoints").glob("*/chk-*/_metadata")]
    assert kept, "what is owed stays restorable"


def test_a_directory_that_vanishes_under_a_running_job_ends_it_and_says_so(tmp_path: Path) -> None:
    env = environment(tmp_path, 1, {"execution.checkpointing.interval": "1 h"})
    client = program(env)
    client.trigger_checkpoint().result(30)
    shutil.rmtree(tmp_path / "checkpoints" / str(client.get_job_id()))
    with pytest.raises(
        PenstockError, match=r"pointer\S* is gone. The checkpoint directory was deleted"
    ):
        client.trigger_checkpoint().result(30)
    with pytest.raises(JobExecutionError, match="The checkpoint directory was deleted"):
        client.get_job_execution_result().result(30)


def test_places_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """One sentence with the place and what to do, not a traceback of a library."""
    (tmp_path / "file").write_text("")
    wrong = {
        "io.tmp.dirs": (str(tmp_path / "file"), r"file/.* cannot be made.*Set io.tmp.dirs"),
        "execution.state-recovery.path": ("/no/such/chk-3", "There is nothing at that place"),
    }
    for key, (value, message) in wrong.items():
        with pytest.raises(PenstockError, match=message):
            program(environment(tmp_path, 1, {key: value})).get_job_execution_result().result()
