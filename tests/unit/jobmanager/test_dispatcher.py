"""The dispatcher with processes that are made up: only files are real."""

from __future__ import annotations

import errno
import json
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from dispatcher_world import World, package, started, submit

from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ProgramError
from penstock.core.job import JobStatus
from penstock.jobmanager import job_directory
from penstock.jobmanager.dispatching import NotLeaderError, UnknownJobError
from penstock.jobmanager.job_directory import JobDirectory
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    Operation,
    OperationStatus,
    RefusedError,
)
from penstock.jobmanager.restart_strategies import FailureMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for dispatcher in made.made:
        dispatcher.close()


def test_a_job_is_stored_before_it_is_started(world: World) -> None:
    dispatcher = world.dispatcher()
    job_id = started(world, dispatcher, configuration={"python.client.executable": "python9"})
    (job,) = dispatcher.jobs()
    assert (job.job_id, job.name) == (job_id, "named")
    stored = world.directory / "jobs" / job_id
    assert (stored / "package.zip").read_bytes() == package()
    assert json.loads((stored / "submission.json").read_text())["program"] == "app.py"
    assert json.loads((stored / "process.json").read_text())["leader_epoch"] == 1
    assert world.launcher.interpreters == ["python9"]
    world.launcher.end(job_id, "FINISHED")
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.FINISHED)
    assert dispatcher.jobs()[0].ended_ms is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"program": None}, "either a 'program' or a 'module'"),
        ({"module": "app"}, "either a 'program' or a 'module'"),
        ({"program": "../app.py"}, "name of a file in the package, without a directory"),
        ({"program": "/app.py"}, "name of a file in the package, without a directory"),
        ({"program": None, "module": "os; x"}, "a dotted name"),
        ({"configuration": {"restart-strategy.type": "sometimes"}}, "sometimes"),
        ({"configuration": {"task.cancellation.timeout": "soon"}}, "soon"),
        (
            {"configuration": {"execution.state-recovery.path": "/nowhere/chk-1"}},
            "/nowhere/chk-1 is not a checkpoint or savepoint",
        ),
    ],
)
def test_what_cannot_run_is_refused_and_leaves_nothing(
    world: World, changes: dict[str, Any], said: str
) -> None:
    dispatcher = world.dispatcher()
    kind = RefusedError if "configuration" in changes else ProgramError
    with pytest.raises(kind, match=said):
        submit(dispatcher, **changes)
    assert dispatcher.jobs() == []
    assert list((world.directory / "jobs").iterdir()) == []


def test_settings_of_the_job_managers_command_line_are_defaults(world: World) -> None:
    configuration = Configuration()
    for key, value in (("parallelism.default", "3"), ("state.backend.type", "rocksdb")):
        configuration.put(key, value, Rank.COMMAND_LINE, "-D")
    configuration.put("rest.port", "1", Rank.COMMAND_LINE, "-D")
    configuration.put("pipeline.name", "from a file", Rank.FILE, "config.yaml")
    dispatcher = world.dispatcher(configuration=configuration)
    job_id = started(world, dispatcher, configuration={"parallelism.default": "5"})
    stored = world.launcher.directories[job_id].submission.read()
    assert stored is not None
    # A file is read by the driver itself; the port is not the job's.
    assert stored.configuration == {"parallelism.default": "5", "state.backend.type": "rocksdb"}


def test_a_command_and_what_becomes_of_it(world: World) -> None:
    dispatcher = world.dispatcher()
    job_id = started(world, dispatcher)
    command = Command(CommandKind.SAVEPOINT, "target", native=True)
    trigger = dispatcher.trigger(job_id, command, "a" * 32)
    assert trigger == "a" * 32
    directory = world.launcher.directories[job_id]
    written = directory.command(trigger).read()
    assert written is not None
    assert written == Command(CommandKind.SAVEPOINT, "target", native=True, attempt=1)
    found = dispatcher.operation(job_id, trigger)
    assert found is not None
    assert found.status is OperationStatus.IN_PROGRESS
    done = Operation(trigger, OperationStatus.COMPLETED, "place")
    directory.result(trigger).write(done)
    # The same id again is the same operation, also when it is asked for something else.
    assert dispatcher.trigger(job_id, Command(CommandKind.CANCEL), trigger) == trigger
    found = dispatcher.operation(job_id, trigger)
    assert found is not None
    assert (found.status, found.location) == (OperationStatus.COMPLETED, "place")
    assert dispatcher.operation(job_id, "b" * 32) is None
    assert dispatcher.jobs()[0].status is JobStatus.RUNNING


def test_a_command_that_cannot_be_written_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = world.dispatcher()
    job_id = started(world, dispatcher)
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr("penstock.jobmanager.job_directory.replace_file", Mock(side_effect=full))
        for kind in (CommandKind.SAVEPOINT, CommandKind.CANCEL):
            with pytest.raises(RefusedError, match=f"{kind.value} cannot be noted.*No space left"):
                dispatcher.trigger(job_id, Command(kind))
    assert dispatcher.jobs()[0].status is JobStatus.RUNNING
    dispatcher.trigger(job_id, Command(CommandKind.CANCEL))
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.CANCELLING)


def test_an_end_that_cannot_be_written_at_first_is_written_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = world.dispatcher()
    job_id = started(world, dispatcher)
    replace_file, refused = job_directory.replace_file, threading.Event()

    def full(path: Path, data: bytes, **options: bool) -> None:
        if path.name == "job.json":
            refused.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        replace_file(path, data, **options)

    with monkeypatch.context() as patched:
        patched.setattr(job_directory, "replace_file", full)
        world.launcher.children[job_id, 1].status = -9
        assert refused.wait(60)
        assert dispatcher.jobs()[0].status is JobStatus.RUNNING
    # Also what follows from the end comes then: the clean-up.
    world.wait(lambda: (job_id, "FAILED", 2) in world.cleaned)
    record = JobDirectory(world.directory / "jobs" / job_id).job.read()
    assert record is not None
    assert record.ended_ms is not None
    assert "signal 9" in str(record.error)


def test_commands_that_are_not_obeyed_before_the_end_have_failed(world: World) -> None:
    dispatcher = world.dispatcher()
    job_id = started(world, dispatcher)
    savepoint = dispatcher.trigger(job_id, Command(CommandKind.SAVEPOINT, "x"))
    cancel = dispatcher.trigger(job_id, Command(CommandKind.CANCEL))
    world.launcher.end(job_id, "CANCELED")
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.CANCELED)
    found = [dispatcher.operation(job_id, each) for each in (savepoint, cancel)]
    assert [each.status for each in found if each] == [
        OperationStatus.FAILED,
        OperationStatus.COMPLETED,
    ]
    with pytest.raises(RefusedError, match="has ended: it is CANCELED"):
        dispatcher.trigger(job_id, Command(CommandKind.CANCEL))


def test_a_job_that_does_not_run_takes_no_savepoint(world: World) -> None:
    dispatcher = world.dispatcher()
    job_id = submit(dispatcher)
    with pytest.raises(RefusedError, match="needs a RUNNING job"):
        dispatcher.trigger(job_id, Command(CommandKind.SAVEPOINT, "x"))
    # It can be cancelled at any time.
    dispatcher.trigger(job_id, Command(CommandKind.CANCEL))


def test_a_dead_process_is_followed_by_another_with_a_higher_epoch(world: World) -> None:
    dispatcher = world.dispatcher()
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    job_id = started(world, dispatcher, configuration=settings)
    # A restart within the process is no death of it.
    world.launcher.report(job_id, "RESTARTING", restarts=1)
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.RESTARTING)
    world.launcher.children[job_id, 1].status = -9
    world.wait(lambda: (job_id, 2) in world.launcher.children)
    process = world.launcher.directories[job_id].process.read()
    assert process is not None
    assert (process.attempt, process.leader_epoch) == (2, 2)
    assert "SIGKILL" in str(process.previous_death)
    # What the first attempt says now counts nothing.
    world.launcher.say_end(job_id, "FINISHED")
    world.launcher.report(job_id, "RUNNING", attempt=2)
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.RUNNING)
    world.launcher.children[job_id, 2].status = 1
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.FAILED)
    assert "with exit status 1" in str(dispatcher.job(job_id).error)


def test_restarts_and_failures_outlive_processes_and_job_managers(world: World) -> None:
    """Two failures in the first process, its death, then a job manager that dies with the next."""
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    first = world.dispatcher()
    job_id = started(world, first, configuration=settings)
    world.launcher.report(job_id, "RUNNING", restarts=2, failures=FailureMemory(2))
    world.wait(lambda: first.jobs()[0].restarts == 2)
    world.launcher.children[job_id, 1].status = -9
    world.wait(lambda: (job_id, 2) in world.launcher.children)
    assert first.jobs()[0].restarts == 3
    process = world.launcher.directories[job_id].process.read()
    assert process is not None
    assert (process.restarts, process.failures) == (3, FailureMemory(3))
    world.launcher.report(job_id, "RUNNING", 2, failures=process.failures, changed_ms=7)
    world.wait(lambda: first.jobs()[0].status is JobStatus.RUNNING)
    first.close()

    second = world.dispatcher()
    world.wait(lambda: (job_id, 3) in world.launcher.children)
    assert second.jobs()[0].restarts == 3
    process = world.launcher.directories[job_id].process.read()
    assert process is not None
    assert "while no job manager looked after it" in str(process.previous_death)
    world.launcher.report(job_id, "RUNNING", 3)
    world.wait(lambda: second.jobs()[0].status is JobStatus.RUNNING)
    world.launcher.children[job_id, 3].status = -9
    world.wait(lambda: second.jobs()[0].status is JobStatus.FAILED)
    assert "this was failure 4" in str(second.job(job_id).error)


def is_clean(world: World, job_id: str) -> bool:
    record = world.launcher.directories[job_id].job.read()
    return record is not None and record.leftover == 0


def test_what_dead_processes_left_is_removed_by_this_job_manager_or_the_next(
    world: World,
) -> None:
    first = world.dispatcher()
    finished = started(world, first)
    world.launcher.end(finished, "FINISHED")
    world.wait(lambda: first.jobs()[0].status is JobStatus.FINISHED)
    failed = started(world, first)
    world.launcher.children[failed, 1].status = -9
    world.wait(lambda: (failed, "FAILED", 2) in world.cleaned)
    world.wait(lambda: is_clean(world, failed))
    world.trouble = OSError("no route to the storage")
    cancelled = started(world, first)
    first.trigger(cancelled, Command(CommandKind.CANCEL))
    world.launcher.children[cancelled, 1].status = -9
    # Each try is in a higher epoch, whatever became of the one before.
    world.wait(lambda: (cancelled, "CANCELED", 2) in world.cleaned)
    first.close()
    world.trouble = None
    second = world.dispatcher()
    world.wait(lambda: (cancelled, "CANCELED", 3) in world.cleaned)
    world.wait(lambda: is_clean(world, cancelled))
    second.close()
    world.dispatcher().close()
    assert [each[0] for each in world.cleaned] == [failed, cancelled, cancelled]


def test_a_job_that_ended_while_nobody_looked_ended_then(world: World) -> None:
    first = world.dispatcher()
    job_id = started(world, first)
    first.close()
    ended_ms = first.jobs()[0].submitted_ms + 1
    world.launcher.say_end(job_id, "FINISHED", ended_ms=ended_ms)
    second = world.dispatcher()
    world.wait(lambda: second.jobs()[0].status is JobStatus.FINISHED)
    assert second.jobs()[0].ended_ms == ended_ms
    assert second.jobs()[0].changed_ms == ended_ms


def test_the_programs_own_restart_strategy_counts(world: World) -> None:
    dispatcher = world.dispatcher()
    job_id = submit(dispatcher)
    world.wait(lambda: (job_id, 1) in world.launcher.children)
    own = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    world.launcher.directories[job_id].settings.write(own)
    world.launcher.report(job_id, "RUNNING")
    world.wait(lambda: dispatcher.jobs()[0].status is JobStatus.RUNNING)
    world.launcher.children[job_id, 1].status = -9
    world.wait(lambda: (job_id, 2) in world.launcher.children)


def test_a_standby_refuses_everything(world: World) -> None:
    dispatcher = world.dispatcher(leads=False)
    for ask in (
        dispatcher.jobs,
        lambda: submit(dispatcher),
        lambda: dispatcher.document("a" * 32, "job"),
        lambda: dispatcher.trigger("a" * 32, Command(CommandKind.CANCEL)),
        lambda: dispatcher.dispose_savepoint("x"),
        lambda: dispatcher.log_tail("a" * 32, 10),
    ):
        with pytest.raises(NotLeaderError):
            ask()


def test_unknown_jobs_and_documents(world: World) -> None:
    dispatcher = world.dispatcher()
    for job_id in ("a" * 32, "../../etc", ""):
        with pytest.raises(UnknownJobError):
            dispatcher.document(job_id, "job")
    job_id = submit(dispatcher)
    found = dispatcher.job(job_id)
    assert (found.job_id, found.name, found.tasks) == (job_id, "app", {})
    assert dispatcher.document(job_id, "job") is None
    assert dispatcher.document(job_id, "checkpoints") is None
    assert dispatcher.document(job_id, "../job") is None


def test_ended_jobs_are_remembered_up_to_a_limit(world: World) -> None:
    dispatcher = world.dispatcher(max_ended=2)
    ids = []
    for _ in range(4):
        job_id = started(world, dispatcher)
        world.launcher.end(job_id, "FINISHED")
        ids.append(job_id)
        world.wait(lambda: all(each.status is JobStatus.FINISHED for each in dispatcher.jobs()))
    world.wait(lambda: len(dispatcher.jobs()) == 2)
    assert [job.job_id for job in dispatcher.jobs()] == ids[:1:-1]
    assert sorted(path.name for path in (world.directory / "jobs").iterdir()) == ids[2:]
    dispatcher.close()
    # They outlive the job manager.
    again = world.dispatcher()
    assert [job.job_id for job in again.jobs()] == ids[:1:-1]


def test_events_name_what_has_changed_and_end_with_the_job(world: World) -> None:
    dispatcher = world.dispatcher()
    job_id = started(world, dispatcher)
    directory = world.launcher.directories[job_id]
    events = dispatcher.events(job_id)
    heard: list[str] = []
    listener = threading.Thread(target=lambda: heard.extend(events))
    listener.start()
    directory.write_document("checkpoints", b"{}")
    world.wait(lambda: "checkpoints" in heard)
    world.launcher.end(job_id, "FINISHED")
    listener.join(200)
    assert not listener.is_alive()
    assert heard[-1] == "job"


def test_a_submission_that_was_cut_short_is_not_a_job(world: World) -> None:
    draft = world.directory / "jobs" / f".new-{'a' * 32}"
    draft.mkdir(parents=True)
    assert world.dispatcher().jobs() == []
    assert not draft.exists()
