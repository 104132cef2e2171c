"""The process dies at named steps of the commit protocol: nothing lost, nothing doubled.

Each job suffers four faults, one after the other, and then runs to its end. `make chaos KILLS=n`
draws as many as asked for; here are sixteen that together touch every step, in every change.
"""

from __future__ import annotations

import functools
import os
import random
import signal
from typing import TYPE_CHECKING

import pytest
from kill_campaign import MORE, RECORDS, Fault, Run, Tally, all_points
from kill_oracle import (
    EXPECTED,
    KEYS,
    PATIENCE_S,
    WINDOW_MS,
    choose_shapes,
    log_of,
    pace,
    start,
    verify,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.e2e

JOBS = {
    "ids and uploads": [
        Fault("checkpoint.id.after", "kill", 2),
        Fault("storage.write", "torn:half", 2, "/shared/"),
        Fault("storage.link.after", "kill", 1, "/shared/"),
        Fault("checkpoint.upload.after", "exit", 1),
        Fault("job.restore.before", "kill", 1),
    ],
    "metadata and pointer": [
        Fault("storage.write", "torn:-1", 2, "_metadata"),
        Fault("checkpoint.metadata.after", "kill", 2),
        Fault("storage.write", "torn:1", 2, "/pointer/"),
        Fault("storage.link.after", "kill", 2, "/pointer/"),
    ],
    "output and deletion": [
        Fault("checkpoint.pointer.after", "kill", 2),
        Fault("sink.commit.between", "kill", 3),
        Fault("storage.delete.before", "kill", 2, "_metadata"),
        Fault("checkpoint.release.after", "hang", 1),
    ],
    "epochs and history": [
        Fault("epoch.fold.after", "kill", 3),
        Fault("sink.prepare.before", "kill", 2),
        Fault("checkpoint.history.before", "kill", 4),
        Fault("storage.write", "torn:0", 2, "/counter/"),
    ],
}


OWN = {"metadata and pointer", "epochs and history"}
"""Jobs that find their own checkpoints; the others are given the path of the latest one."""


@pytest.mark.parametrize("name", JOBS, ids=lambda name: name.replace(" ", "-"))
def test_killed_at_each_step(tmp_path: Path, name: str) -> None:
    tally = Tally()
    run = Run(tmp_path, random.Random(name), tally)
    pace(tmp_path)
    run.is_own = name in OWN
    run.settings["execution__checkpointing__incremental"] = "true"
    run.settings["execution__checkpointing__data-inline-threshold"] = "0"
    for fault in JOBS[name]:
        assert run.suffer(fault), f"{fault.name} was not reached: {log_of(tmp_path)}"
    run.finish()
    assert tally.kills == len(JOBS[name])


def test_every_point_is_reached(tmp_path: Path) -> None:
    """A point that nothing reaches protects nothing: kills there would be dreamt of."""
    pace(tmp_path)
    notes = tmp_path / "notes.txt"
    note = f"*=note:{notes}"
    # An upload that fails is discarded; then the process dies, and another one starts from there.
    faults = f"{note};checkpoint.upload.before#2=raise;checkpoint.history.before#20=kill"
    job = start(tmp_path, RECORDS, "in-process", "hashmap", "own:1", faults, **MORE)
    assert job.wait(PATIENCE_S) == -signal.SIGKILL, log_of(tmp_path)
    job = start(tmp_path, RECORDS, "in-process", "hashmap", "own:2", note, **MORE)
    assert job.wait(PATIENCE_S) == 0, log_of(tmp_path)
    verify(tmp_path, RECORDS)
    reached = set(notes.read_text().split())
    # This job writes no Kafka, to no database and no table.
    others = ("kafka.", "jdbc.", "delta.", "iceberg.")
    assert reached == {point for point in all_points() if not point.startswith(others)}
    assert len(reached) > 30


def test_killed_on_progress(tmp_path: Path) -> None:
    """At no step in particular, once so many new checkpoints are there."""
    run = Run(tmp_path, random.Random(int(os.environ.get("PENSTOCK_SEED", "1"))), Tally())
    for number in (1, 2, 1, 3):
        if not run.suffer(Fault("", "kill", number)):
            run.check()
            return
    run.finish()


def test_killed_after_its_end(tmp_path: Path) -> None:
    """A finished job whose process could not tell does not begin again."""
    run = Run(tmp_path, random.Random(7), Tally())
    run.is_own = True
    assert run.suffer(Fault("checkpoint.removal.after", "kill", 1))
    run.check()
    run.finish()


def test_killed_before_its_first_checkpoint(tmp_path: Path) -> None:
    """The first epoch is repeated beside files that the dead process left, without a failure."""
    run = Run(tmp_path, random.Random(8), Tally())
    run.is_own = True
    run.settings["restart-strategy__type"] = "none"
    assert run.suffer(Fault("sink.prepare.before", "kill", 1))
    assert [*tmp_path.glob("numbered/*/.*.inprogress")], "the dead process left no file"
    run.finish()


@pytest.mark.parametrize(
    ("broken", "fault", "noticed"),
    [
        ("commit_before_publish", Fault("checkpoint.pointer.before", "kill", 2), "doubled"),
        ("forget_owed_output", Fault("sink.commit.before", "kill", 2), "lost"),
        (
            "forget_restored_timers",
            Fault("", "kill", 6),
            "seconds: .*missing",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.point or "progress",
)
def test_broken_builds_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, fault: Fault, noticed: str
) -> None:
    monkeypatch.setenv("KILL_JOB_BREAK", broken)
    run = Run(tmp_path, random.Random(broken), Tally())
    pace(tmp_path)
    run.is_own = True
    run.backend = "hashmap"
    choose_shapes(tmp_path, ["seconds"])
    assert run.suffer(fault)
    with pytest.raises(AssertionError, match=noticed):
        run.finish()


def written(directory: Path, edit: Callable[[dict[str, list[str]]], object]) -> None:
    """What a job without failures writes, after `edit` has spoilt it."""
    numbered = [
        f"{key},{count},{value}"
        for key in range(KEYS)
        for count, value in enumerate(range(key, 2_000, KEYS), 1)
    ]
    sums = [
        str(sum(value for value in range(at, at + WINDOW_MS) if value % 3 == key))
        for at in range(0, 2_000, WINDOW_MS)
        for key in range(3)
    ]
    shapes = {name: list(lines(2_000)) for name, lines in EXPECTED.items()}
    choose_shapes(directory, shapes)
    output = {"numbered": numbered, "sums": sums, **shapes}
    edit(output)
    for name, lines in output.items():
        (directory / name).mkdir()
        (directory / name / "part").write_text("\n".join(lines))
        (directory / name / ".pending").write_text("not yet\n")


SPOILT: dict[str, Callable[[dict[str, list[str]]], object]] = {
    "lost": lambda output: output["numbered"].pop(7),
    "doubled": lambda output: output["numbered"].append(output["numbered"][3]),
    "count wrong": lambda output: output["numbered"].__setitem__(5, "0,7,250"),
    "window lost": lambda output: output["sums"].pop(),
    "window wrong": lambda output: output["sums"].__setitem__(0, "1"),
}


def lose(output: dict[str, list[str]], shape: str) -> None:
    output[shape].pop()


def double(output: dict[str, list[str]], shape: str) -> None:
    output[shape].append(output[shape][0])


for shape in EXPECTED:
    SPOILT[f"{shape}, lost"] = functools.partial(lose, shape=shape)
    SPOILT[f"{shape}, doubled"] = functools.partial(double, shape=shape)


@pytest.mark.parametrize("name", SPOILT)
def test_the_oracle_notices(tmp_path: Path, name: str) -> None:
    written(tmp_path, SPOILT[name])
    with pytest.raises(AssertionError):
        verify(tmp_path, 2_000)


def test_the_oracle_accepts_what_is_right(tmp_path: Path) -> None:
    written(tmp_path, lambda _: None)
    verify(tmp_path, 2_000)
