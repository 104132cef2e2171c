"""A later attempt of a job goes on from the latest checkpoint; an earlier one can do no more."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, Encoder
from penstock.core.errors import PenstockError
from penstock.core.job import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import FileSink, PythonSource
from penstock.job.start import start_job
from penstock.jobmanager.job_records import attempt_epoch

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.job.local_job import LocalJob

JOB_ID = "0123456789abcdef0123456789abcdef"
END = 4_000

held: dict[str, threading.Event] = {}


class Numbers(PythonSource):
    """0, 1, 2 …; from 1,000 on an attempt reads only when the test lets it."""

    bounded = True

    def __init__(self, attempt: str) -> None:
        self.attempt = attempt

    def splits(self) -> list[str]:
        return ["0"]

    def end_offset(self, split: str) -> int:
        return END

    def latest_offset(self, split: str) -> int:
        return END if held[self.attempt].is_set() else 1_000

    def read(self, split: str, start: int, end: int) -> list[int]:
        return list(range(start, end))


def start(
    directory: Path, attempt: str, leader_epoch: int, job_id: str = JOB_ID, **settings: str
) -> LocalJob:
    held.setdefault(attempt, threading.Event())
    configuration = Configuration()
    for key, value in {
        "penstock.spark.master": "in-process",
        "penstock.epoch.max-records": "100",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "10 ms",
        "io.tmp.dirs": str(directory / "tmp"),
        **settings,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    numbers = env.add_source(Numbers(attempt)).uid("numbers")
    numbers.key_by(lambda value: value % 3).map(str).sink_to(sink).uid("out")
    return start_job(
        env._stream_graph("fenced"), configuration, job_id=job_id, leader_epoch=leader_epoch
    )


def wait_until(condition: Any, what: str) -> None:
    pause = threading.Event()
    for _ in range(20_000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError(what)


def completed(job: LocalJob) -> list[int]:
    return [each.checkpoint_id for each in job.checkpoints() if each.status == "COMPLETED"]


def lines(directory: Path) -> Counter[str]:
    """What a reader sees: names that begin with a dot or an underscore are no output."""
    files = [path for path in (directory / "out").rglob("*") if path.is_file()]
    seen = [path for path in files if not path.name.startswith((".", "_"))]
    return Counter(line for path in seen for line in path.read_text().splitlines())


def test_an_earlier_attempt_publishes_nothing_once_a_later_one_runs(tmp_path: Path) -> None:
    """Both attempts read on after the takeover; only what the later one commits is there."""
    first = start(tmp_path, "first", 1)
    wait_until(lambda: first.records_read >= 1_000 and completed(first), "no checkpoint")
    second = start(tmp_path, "other", 2)
    wait_until(lambda: completed(second), "the second attempt took no checkpoint")
    published = max(completed(second))
    taken = len(completed(first))

    held["first"].set()
    with pytest.raises(PenstockError):
        first.result.result(200)
    assert first.is_fenced
    assert first.status is JobStatus.FAILED
    # Its restart strategy has five more attempts, none of which may be made.
    assert first.restarts == 0
    assert len(completed(first)) <= taken + 1

    assert second.status is JobStatus.RUNNING
    held["other"].set()
    second.result.result(200)
    assert lines(tmp_path) == Counter(str(number) for number in range(END))
    assert min(completed(second)) > 1, "ids went on"
    assert published <= max(completed(second))


def test_the_first_attempt_starts_empty_and_the_next_one_from_the_checkpoint(
    tmp_path: Path,
) -> None:
    first = start(tmp_path, "one", 1)
    wait_until(lambda: first.records_read >= 1_000 and completed(first), "no checkpoint")
    wait_until(lambda: first.checkpoints()[0].epoch >= first.last_epoch - 1, "a late checkpoint")
    second = start(tmp_path, "two", 7)
    held["two"].set()
    second.result.result(200)
    assert second.statistics is not None
    assert second.statistics.latest.restored is not None
    # What the checkpoint holds is not read again.
    assert second.records_read <= END - 900
    held["one"].set()
    with pytest.raises(PenstockError):
        first.result.result(200)
    assert lines(tmp_path) == Counter(str(number) for number in range(END))


def test_the_pointer_of_another_job_in_the_same_directory_is_not_ones_own(tmp_path: Path) -> None:
    """Without a directory for each job, an earlier job has left its checkpoints there."""
    settings = {
        "execution.checkpointing.create-subdir": "false",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    first = start(tmp_path, "left", 1, **settings)
    wait_until(lambda: first.records_read >= 1_000 and completed(first), "no checkpoint")
    first.cancel()
    with pytest.raises(PenstockError):
        first.result.result(200)
    held["other"] = threading.Event()
    held["other"].set()
    second = start(
        tmp_path / "second",
        "other",
        9,
        "e" * 32,
        **settings,
        **{"execution.checkpointing.dir": str(tmp_path / "checkpoints")},
    )
    second.result.result(200)
    assert second.records_read == END
    assert lines(tmp_path / "second") == Counter(str(number) for number in range(END))


def test_epochs_rise_with_attempts_and_with_leaders() -> None:
    epochs = [attempt_epoch(leader, attempt) for leader in (0, 1, 2) for attempt in (1, 2, 999)]
    assert epochs == sorted(set(epochs))
    assert epochs[0] == 1
