"""Every source and every sink keeps its contract; a new one is a new row.

Sources: what is read is a function of split, position and budget, and the splits together hold
every record once. Sinks: what is pending is invisible, a commit may be repeated, what is aborted or
was written by a dead attempt never shows.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import connectors as rules
from penstock.testing.connectors import SinkJob

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.connectors.source import Source

from sink_rows import SINKS, Target
from source_rows import SOURCES

# -- sources --------------------------------------------------------------------------------------


@pytest.fixture(params=list(SOURCES))
def source_and_records(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Source, list[Any]]:
    source, records = SOURCES[request.param](tmp_path)
    copy: Source = pickle.loads(pickle.dumps(source))
    return copy, records


def test_splits_cover_every_record_once(source_and_records: tuple[Source, list[Any]]) -> None:
    rules.every_record_once(*source_and_records)


def test_budgets_and_retries_change_nothing(source_and_records: tuple[Source, list[Any]]) -> None:
    rules.budgets_and_retries_change_nothing(*source_and_records)


def test_discovery_is_plain_and_finds_nothing_twice(
    source_and_records: tuple[Source, list[Any]],
) -> None:
    rules.searches_find_nothing_twice(*source_and_records)
    source, _ = source_and_records
    assert source.discover(None, 0).complete


# -- sinks ----------------------------------------------------------------------------------------


@pytest.fixture(params=list(SINKS))
def target(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Target:
    folder = tmp_path / "out"
    folder.mkdir()
    return SINKS[request.param](folder, capsys)


@pytest.fixture
def job(target: Target, tmp_path: Path) -> SinkJob:
    (tmp_path / "scratch").mkdir()
    return SinkJob(target, tmp_path / "scratch")


def test_output_shows_once_it_is_committed(target: Target, job: SinkJob) -> None:
    rules.output_shows_once_it_is_committed(target, job)


def test_records_of_a_subtask_stay_in_order(target: Target, job: SinkJob) -> None:
    rules.records_of_a_subtask_stay_in_order(target, job)


def test_a_commit_may_be_repeated(target: Target, job: SinkJob) -> None:
    rules.a_commit_may_be_repeated(target, job)


def test_an_epoch_may_come_again(target: Target, job: SinkJob) -> None:
    rules.an_epoch_may_come_again(target, job)


def test_aborted_output_never_shows(target: Target, job: SinkJob) -> None:
    rules.aborted_output_never_shows(target, job)
    assert_nothing_hidden(target)


def test_a_dead_attempt_never_shows(target: Target, job: SinkJob) -> None:
    rules.a_dead_attempt_never_shows(target, job)
    if target.counts_dead_files:
        assert_nothing_hidden(target)


def assert_nothing_hidden(target: Target) -> None:
    if target.files is not None:
        hidden = [path for path in target.files.rglob("*") if path.name.startswith(".")]
        assert hidden == []
