"""Dealing splits to subtasks, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.connectors.source import Discovery, Split
from penstock.core.errors import JobExecutionError
from penstock.job.snapshot import to_snapshot
from penstock.runtime.job_state import JobState, SourceProgress


def ids(progress: SourceProgress) -> dict[int, list[str]]:
    return {who: [split.split_id for split in splits] for who, splits in progress.assigned.items()}


def found(*splits: Split, complete: bool = True) -> SourceProgress:
    return SourceProgress().discovered(Discovery(splits, state="s", complete=complete))


def test_ranges_are_dealt_two_ahead() -> None:
    progress = found(*(Split(f"r{number}", None, start=number) for number in range(6))).dealt(2)
    assert ids(progress) == {0: ["r0", "r2"], 1: ["r1", "r3"]}
    assert [split.split_id for split in progress.waiting] == ["r4", "r5"]
    assert progress.positions == {"r0": 0, "r1": 1, "r2": 2, "r3": 3}
    assert not progress.is_last_for(0)


def test_a_fast_subtask_takes_more() -> None:
    progress = found(*(Split(f"r{number}", None) for number in range(6))).dealt(2)
    progress = progress.read(1, {"r1": 9, "r3": 9}, ["r1", "r3"]).dealt(2)
    assert ids(progress) == {0: ["r0", "r2"], 1: ["r4", "r5"]}
    assert progress.is_last_for(0)
    assert progress.finished == 2
    assert "r1" not in progress.positions


def test_subtasks_that_run_dry_are_given_more() -> None:
    progress = found(*(Split(f"r{number}", None) for number in range(20))).dealt(1)
    progress = progress.read(0, {"r0": 9, "r1": 9}, ["r0", "r1"]).dealt(1)
    assert ids(progress) == {0: ["r2", "r3", "r4", "r5"]}
    # One of four finished: three are too many to hold back from others.
    progress = progress.read(0, {"r2": 9}, ["r2"]).dealt(1)
    assert ids(progress) == {0: ["r3", "r4", "r5"]}


def test_partitions_are_dealt_at_once() -> None:
    progress = found(*(Split(f"p{number}", None, concurrent=True) for number in range(5))).dealt(2)
    assert ids(progress) == {0: ["p0", "p2", "p4"], 1: ["p1", "p3"]}
    later = progress.discovered(Discovery((Split("p5", None, concurrent=True),))).dealt(2)
    assert ids(later)[1] == ["p1", "p3", "p5"]


def test_positions_go_on() -> None:
    progress = found(Split("a", None)).dealt(1).read(0, {"a": 100}, [])
    ((split, position),) = progress.splits_of(0)
    assert (split.split_id, position) == ("a", 100)


def test_an_unknown_split_is_an_error() -> None:
    with pytest.raises(JobExecutionError, match="was not given"):
        found(Split("a", None)).dealt(1).read(0, {"b": 1}, [])


def test_a_snapshot_soon_after_a_restore_has_every_position() -> None:
    """A job with fewer subtasks than before takes two of the three splits that were begun."""
    splits = tuple(Split(name, None) for name in "abcd")
    progress = SourceProgress(waiting=splits, resumed={"a": 5, "b": 6, "c": 7}).dealt(1)
    assert ids(progress) == {0: ["a", "b"]}
    graph: Any = SimpleNamespace(stages=())
    saved = to_snapshot(graph, JobState(3, {}, {"source": progress}), {}).sources["source"]
    assert [(split[0], at) for split, at in saved["assigned"]] == [("a", 5), ("b", 6), ("c", 7)]
    assert [split[0] for split in saved["waiting"]] == ["d"]
