"""Subtasks are dealt out to tasks: as many as run at once, and evenly for each stage."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.runtime.job_metrics import work_by_level
from penstock.runtime.level_task import level_tasks
from penstock.runtime.records import SubtaskReport


def levels(*parallelisms: int) -> Any:
    """One level with stages of that parallelism, as far as `level_tasks` and the metrics look."""
    stages = [
        SimpleNamespace(stage_id=number, parallelism=each, level=0)
        for number, each in enumerate(parallelisms)
    ]
    return SimpleNamespace(stages=stages, levels=[stages])


def test_each_stage_is_spread_evenly() -> None:
    tasks = level_tasks(levels(4, 4, 1, 1), 0, 2)
    assert [sorted(keys) for keys in tasks] == [
        [(0, 0), (0, 2), (1, 0), (1, 2), (2, 0)],
        [(0, 1), (0, 3), (1, 1), (1, 3), (3, 0)],
    ]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 64, 65, 1_000])
def test_each_subtask_has_one_task(most: int) -> None:
    tasks = level_tasks(levels(64, 1), 0, most)
    assert len(tasks) == min(most, 65)
    assert Counter(key for keys in tasks for key in keys) == Counter(
        [(0, index) for index in range(64)] + [(1, 0)]
    )
    assert max(map(len, tasks)) - min(map(len, tasks)) <= 1


def test_subtasks_of_one_task_work_one_after_the_other() -> None:
    # Attempt 7 ran two subtasks, 30 and 20 ms; attempt 8 one, 40 ms. Commits of state are work.
    reports = [
        SubtaskReport(0, 0, 7, busy_ms=30, commit_ms=10),
        SubtaskReport(0, 1, 8, busy_ms=40, commit_ms=1),
        SubtaskReport(0, 2, 7, busy_ms=20, commit_ms=5),
    ]
    assert work_by_level(levels(3), reports) == [50]
