"""Every program gives its results if it goes on with another parallelism midway.

The program runs some epochs of about one record and stops with a savepoint; the same program, built
anew, starts from that savepoint with more or fewer subtasks. Both parts together must be what one
undisturbed run gives. So must a program that is rescaled while it runs, twice.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from programs import PROGRAMS, Program
from programs.ways import Way
from restore_kit import wait_for
from test_programs import check, environment

from penstock.core.errors import ProgramError
from penstock.runtime import in_process

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.runtime.records import EpochPlan, SubtaskReport


class StoppingRunner(in_process.InProcessRunner):
    """Asks for a stop with a savepoint while the epoch of a given number runs."""

    stop_at: ClassVar[int] = 0
    job: ClassVar[Any] = None
    is_known: ClassVar[threading.Event] = threading.Event()
    savepoint: ClassVar[Any] = None

    @classmethod
    def arm(cls, epoch: int) -> None:
        cls.stop_at, cls.savepoint = epoch, None
        cls.is_known.clear()

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        cls = StoppingRunner
        if plan.epoch == cls.stop_at and cls.savepoint is None:
            assert cls.is_known.wait(200)
            cls.savepoint = cls.job.stop_with_savepoint(drain=False)
            wait_for(lambda: cls.job._service.wanted() is not None, "the request")
        return super().run(plan)


def run(program: Program, way: Way, directory: Path, path: str = "") -> list[Any]:
    """Runs a program to its end, or to the savepoint."""
    env = environment(program, way, "in-process")
    set_up(env, directory, path)
    stream, _ = program.build(env)
    with stream.execute_and_collect(program.name) as results:
        StoppingRunner.job = results.get_job_client()._job
        StoppingRunner.is_known.set()
        return list(results)


def set_up(env: Any, directory: Path, path: str) -> None:
    """Sets frequent checkpoints, so that output waits for them."""
    for key, value in {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(directory),
        "execution.checkpointing.savepoint-dir": str(directory),
        "execution.state-recovery.path": path,
    }.items():
        if value:
            env._configuration.set_string(key, value)


def two_parts(
    program: Program, backend: str, before: int, after: int, stop_at: int, directory: Path
) -> tuple[list[Any], list[Any]]:
    StoppingRunner.arm(stop_at)
    first = run(program, Way(backend, before, 1, True), directory)
    if StoppingRunner.savepoint is None:
        # The program is shorter than that; it always has a first epoch.
        return two_parts(program, backend, before, after, 1, directory)
    path = StoppingRunner.savepoint.result(200)
    return first, run(program, Way(backend, after, 3, True), directory, path)


@pytest.mark.parametrize(
    ("before", "after", "stop_at", "backend"), [(1, 3, 4, "rocksdb"), (3, 1, 2, "hashmap")]
)
@pytest.mark.parametrize(
    "program",
    # Processing time goes on while a job is down, so what depends on it may differ.
    [program for program in PROGRAMS if not program.clocked],
    ids=lambda program: program.name,
)
def test_rescaled(
    program: Program,
    before: int,
    after: int,
    stop_at: int,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    monkeypatch.setattr(in_process, "InProcessRunner", StoppingRunner)
    first, second = two_parts(program, backend, before, after, stop_at, tmp_path)
    _, expected = program.build(environment(program, Way(backend, 1, 1, True), "in-process"))
    check(program, expected, [*first, *second])


class RescalingRunner(in_process.InProcessRunner):
    """Has the job rescaled while epochs of given numbers run."""

    job: ClassVar[Any] = None
    is_known: ClassVar[threading.Event] = threading.Event()
    rescales: ClassVar[dict[int, int]] = {}
    done: ClassVar[list[Any]] = []
    parallelisms: ClassVar[list[int]] = []

    @classmethod
    def arm(cls, rescales: dict[int, int]) -> None:
        cls.rescales, cls.done, cls.parallelisms = dict(rescales), [], []
        cls.is_known.clear()

    @classmethod
    def may_go_on(cls) -> bool:
        """Whether the checkpoint waits for the end of an epoch, or is there already.

        In the second case the attempt leaves behind this epoch, which does not count.
        """
        return (
            cls.job._driver._leaves or cls.done[-1].done() or cls.job._service.wanted() is not None
        )

    def run(self, plan: EpochPlan) -> list[SubtaskReport]:
        cls = RescalingRunner
        cls.parallelisms.append(max(index for _, index in plan.subtasks) + 1)
        if cls.done and not cls.done[-1].done():
            wait_for(cls.may_go_on, "the checkpoint")
        if plan.epoch in cls.rescales and (not cls.done or cls.done[-1].done()):
            assert cls.is_known.wait(200)
            # Programs whose operators have parallelisms of their own run undisturbed.
            with contextlib.suppress(ProgramError):
                cls.done.append(cls.job.rescale(cls.rescales.pop(plan.epoch)))
                wait_for(lambda: cls.job._service.wanted() is not None, "the request")
        return super().run(plan)


@pytest.mark.parametrize(
    ("parallelisms", "backend"), [((1, 3, 2), "rocksdb"), ((3, 1, 4), "hashmap")]
)
@pytest.mark.parametrize(
    "program",
    # In this process the clock is the machine's.
    [program for program in PROGRAMS if not program.clocked],
    ids=lambda program: program.name,
)
def test_rescaled_while_it_runs(
    program: Program,
    parallelisms: tuple[int, int, int],
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    monkeypatch.setattr(in_process, "InProcessRunner", RescalingRunner)
    before, then, last = parallelisms
    RescalingRunner.arm({2: then, 4: last})
    way = Way(backend, before, 1, True)
    env = environment(program, way, "in-process")
    set_up(env, tmp_path, "")
    stream, expected = program.build(env)
    with stream.execute_and_collect(program.name) as results:
        RescalingRunner.job = results.get_job_client()._job
        RescalingRunner.is_known.set()
        check(program, expected, list(results))
    if program.name == "rolling.sum_by_position":
        # The rescales really come midway.
        assert [*dict.fromkeys(RescalingRunner.parallelisms)] == list(parallelisms)


def test_both_parts_give_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop above really comes midway."""
    monkeypatch.setattr(in_process, "InProcessRunner", StoppingRunner)
    [program] = [each for each in PROGRAMS if each.name == "rolling.sum_by_position"]
    first, second = two_parts(program, "hashmap", 1, 3, 4, tmp_path)
    assert 1 <= len(first) <= 6
    assert len(first) + len(second) == 7


def test_a_new_job_does_not_print_what_the_other_has_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(in_process, "InProcessRunner", StoppingRunner)
    StoppingRunner.arm(3)
    path = ""
    printed = []
    for _ in range(2):
        env = Way("hashmap", 1, 2, True).environment()
        set_up(env, tmp_path, path)
        env.from_collection(list(range(9))).print()
        client = env.execute_async()
        StoppingRunner.job = client._job
        StoppingRunner.is_known.set()
        client.get_job_execution_result().result(200)
        path = StoppingRunner.savepoint.result(200)
        printed.append(list(map(int, capsys.readouterr().out.split())))
    first, second = printed
    assert first and second
    assert first + second == list(range(9))
