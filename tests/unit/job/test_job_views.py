"""A job's documents are written when they have changed, and only then."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.coordination.checkpoints import (
    CompletedCheckpoint,
    PendingCheckpoint,
    TriggerRequest,
)
from penstock.checkpoint.coordination.instructions import (
    DeleteCheckpoint,
    NotifyCompleted,
    RequestSnapshot,
)
from penstock.checkpoint.figures import CheckpointFigures
from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.common import Configuration
from penstock.core.job import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.job.documents.writer import JobViews
from penstock.job.start import start_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from penstock.job.local_job import LocalJob


class Written:
    """Takes documents and remembers the order of their names."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.names: list[str] = []

    def write(self, name: str, content: bytes) -> None:
        self.documents[name] = content
        self.names.append(name)

    def remove(self, name: str) -> None:
        del self.documents[name]

    def __getitem__(self, name: str) -> Any:
        return json.loads(self.documents[name])


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now_ms = 10_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms


def start(tmp_path: Path, function: Callable[[int], int]) -> tuple[LocalJob, Configuration]:
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "in-process",
        "io.tmp.dirs": str(tmp_path / "tmp"),
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "disable",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection(list(range(100))).map(function).name("Twice").print()
    graph = env._stream_graph("views")
    return start_job(graph, env.get_configuration()), env.get_configuration()


def ended(job: LocalJob) -> None:
    job.result.exception(timeout=200)


def test_documents_tell_of_the_whole_job(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job, configuration = start(tmp_path, lambda value: 2 * value)
    written = Written()
    views = JobViews(job, configuration, written.write, written.remove)
    ended(job)
    views.refresh()
    vertex = job.graph.stages[0].vertex_id
    assert written.documents.keys() == {
        "job",
        "plan",
        "config",
        "effective-config",
        "exceptions",
        "metrics",
        "execution-result",
        "checkpoints",
        "checkpoints/1",
        "checkpoint-config",
        f"vertices/{vertex}",
    }
    # Whoever sees the job's document finds the others.
    assert written.names[-1] == "job"
    assert (written["job"]["state"], written["job"]["name"]) == ("FINISHED", "views")
    assert written["job"]["vertices"][0]["metrics"]["read-records"] == 100
    assert written["execution-result"]["status"] == {"id": "COMPLETED"}
    assert written["checkpoints"]["counts"]["completed"] == 1
    metrics = written["metrics"]
    assert list(metrics["phases"]) == ["plan", "run", "fold", "commit"]
    assert sum(metrics["phases"].values()) == metrics["job"]["lastEpochDuration"]
    requests = {
        (each["op"], each["outcome"]): each["count"] for each in metrics["storage"]["requests"]
    }
    # The only checkpoint's metadata is inline: nothing else is put beside it but the probe.
    assert requests["put", "ok"] >= 1
    assert metrics["storage"]["retries"] == 0
    subtask = written["checkpoints/1"]["subtasks"][vertex]["subtasks"][0]
    assert subtask["state_size"] > 0
    assert subtask["end_to_end_duration"] >= subtask["start_delay"] >= 0
    capfd.readouterr()


def test_nothing_is_written_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job, configuration = start(tmp_path, abs)
    written, hands = Written(), Hands()
    views = JobViews(job, configuration, written.write, clock=hands)
    ended(job)
    views.refresh()
    written.names.clear()
    hands.now_ms += 5_000
    views.refresh()
    assert written.names == []
    capfd.readouterr()


def test_a_failure_is_shown_with_the_users_frames_first(tmp_path: Path) -> None:
    def boom(value: int) -> int:
        raise LookupError(f"no {value}, password=hunter2")

    job, configuration = start(tmp_path, boom)
    written = Written()
    ended(job)
    JobViews(job, configuration, written.write).refresh()
    assert written["job"]["state"] == "FAILED"
    (entry,) = written["exceptions"]["exceptionHistory"]["entries"]
    assert entry["exceptionName"] == "LookupError"
    assert entry["taskName"].endswith("(1/1)")
    assert "Twice" in entry["taskName"]
    lines = entry["stacktrace"].splitlines()
    assert "test_job_views.py" in lines[1]
    assert "hunter2" not in written.documents["exceptions"].decode()
    assert written["execution-result"]["job-execution-result"]["application-status"] == "FAILED"


def test_states_are_entered_in_order(tmp_path: Path) -> None:
    gate = threading.Event()

    def wait(value: int) -> int:
        gate.wait(200)
        return value

    job, configuration = start(tmp_path, wait)
    written = Written()
    views = JobViews(job, configuration, written.write)
    views.refresh()
    assert written["job"]["state"] in ("INITIALIZING", "RUNNING")
    job.cancel()
    gate.set()
    ended(job)
    views.refresh()
    times = written["job"]["timestamps"]
    assert 0 < times["INITIALIZING"] <= times["CANCELLING"] <= times["CANCELED"]
    assert written["job"]["end-time"] == times["CANCELED"]
    assert job.status is JobStatus.CANCELED


class Aside:
    """A job whose checkpoints are those of a test."""

    def __init__(self, job: LocalJob, statistics: CheckpointStatistics) -> None:
        self._job = job
        self.statistics = statistics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job, name)


def take(statistics: CheckpointStatistics, number: int) -> None:
    statistics.apply(RequestSnapshot(number, TriggerRequest(number, 0)), number)
    pending = PendingCheckpoint(
        number,
        TriggerRequest(number, 0),
        0,
        0,
        epoch=number,
        location=f"/c/{number}",
        figures=CheckpointFigures(number),
    )
    statistics.apply(NotifyCompleted(pending, 5, 1), number)


def test_a_long_history_is_encoded_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.job.documents import writer as job_views

    job, configuration = start(tmp_path, abs)
    ended(job)
    statistics = CheckpointStatistics(history_size=50)
    for number in range(1, 51):
        take(statistics, number)
    written, encoded = Written(), []
    make = job_views.record_view

    def counted(record: Any, *rest: Any) -> Any:
        encoded.append(record.checkpoint_id)
        return make(record, *rest)

    monkeypatch.setattr(job_views, "record_view", counted)
    aside: Any = Aside(job, statistics)
    views = JobViews(aside, configuration, written.write, written.remove)
    views.refresh()
    assert sorted(encoded) == list(range(1, 51))
    encoded.clear()
    written.names.clear()
    take(statistics, 51)
    statistics.apply(DeleteCheckpoint(CompletedCheckpoint(50)), 52)
    views.refresh()
    assert encoded == [51, 50]
    assert {name for name in written.names if name.startswith("checkpoints")} == {
        "checkpoints",
        "checkpoints/50",
        "checkpoints/51",
    }
    # The first has left the history, and its document with it.
    history = [line["id"] for line in written["checkpoints"]["history"]]
    assert history == list(range(51, 1, -1))
    assert "checkpoints/1" not in written.documents
    assert written["checkpoints"]["history"][1]["discarded"] is True
    capfd.readouterr()


def test_what_an_earlier_process_told_stays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its checkpoint 2 was in progress when it was killed; the history has room for four."""
    job, configuration = start(tmp_path, abs)
    ended(job)
    before = CheckpointStatistics(history_size=4)
    take(before, 1)
    before.apply(RequestSnapshot(2, TriggerRequest(2, 0)), 2)
    written = Written()
    first: Any = Aside(job, before)
    JobViews(first, configuration, written.write, written.remove).refresh()
    failure = {"exceptionName": "Killed", "stacktrace": "killed", "timestamp": 3}
    entries = {"exceptionHistory": {"entries": [failure], "truncated": False}}
    written.documents["exceptions"] = json.dumps(entries).encode()

    after = CheckpointStatistics(history_size=4)
    second: Any = Aside(job, after)
    second.settings = replace(
        job.settings, checkpoints=replace(job.settings.checkpoints, history_size=4)
    )
    views = JobViews(
        second, configuration, written.write, written.remove, read=written.documents.get
    )
    for number in (3, 4, 5):
        take(after, number)
    views.refresh()
    shown = written["checkpoints"]
    assert [line["id"] for line in shown["history"]] == [5, 4, 3, 1]
    assert shown["counts"] == {
        "restored": 0,
        "total": 4,
        "in_progress": 0,
        "completed": 4,
        "failed": 0,
    }
    assert shown["latest"]["completed"]["id"] == 5
    assert written["exceptions"]["exceptionHistory"]["entries"] == [failure]
    assert written["exceptions"]["root-exception"] == "killed"
    # The fourth of ours takes the place of the last of theirs, and its details go.
    assert "checkpoints/1" in written.documents
    assert "checkpoints/2" not in written.documents
    take(after, 6)
    views.refresh()
    assert [line["id"] for line in written["checkpoints"]["history"]] == [6, 5, 4, 3]
    assert "checkpoints/1" not in written.documents
    assert written["checkpoints"]["counts"]["completed"] == 5
    capfd.readouterr()
