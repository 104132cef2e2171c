"""Records that go to the program, or to its standard output."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.collect import CollectedResults, CollectSink, PrintSink, format_row
from penstock.core.errors import (
    JobExecutionError,
    ProgramError,
)
from penstock.core.row import Row, RowKind

if TYPE_CHECKING:
    from collections.abc import Iterator

from sink_job import CONTEXT, at, write

# -- collecting -----------------------------------------------------------------------------------


@pytest.fixture
def results(request: pytest.FixtureRequest) -> Iterator[CollectedResults]:
    collected = CollectedResults(request.node.name, max_buffered=3)
    yield collected
    collected.close()


def test_collected_records_come_in_order(results: CollectedResults) -> None:
    sink = CollectSink(results.name)
    committables = write(sink, ["c"], 2) + write(sink, ["b"], 1, subtask=1) + write(sink, ["a"], 1)
    sink.create_committer().commit(committables, at(2))
    results.finish()
    assert list(results) == ["a", "b", "c"]


def test_collected_records_are_those_at_the_time_of_writing(results: CollectedResults) -> None:
    sink = CollectSink(results.name)
    record = [1]
    writer = sink.create_writer(CONTEXT)
    writer.write([record], None, 0)
    record.append(2)
    sink.create_committer().commit(writer.prepare_commit(), at(1))
    results.finish()
    assert list(results) == [[1]]


def test_a_slow_program_holds_the_job_back(results: CollectedResults) -> None:
    """Three records may wait; the fourth comes once the first was taken."""
    progress: list[int] = []
    noticed = threading.Condition()

    def job() -> None:
        for epoch in (1, 2, 3, 4):
            results.put([epoch])
            with noticed:
                progress.append(epoch)
                noticed.notify_all()
        results.finish()

    thread = threading.Thread(target=job)
    thread.start()
    with noticed:
        assert noticed.wait_for(lambda: len(progress) == 3, timeout=100)
    iterator = iter(results)
    assert progress == [1, 2, 3]
    assert list(iterator) == [1, 2, 3, 4]
    thread.join(200)
    assert progress == [1, 2, 3, 4]


def test_closing_lets_the_job_go_on(results: CollectedResults) -> None:
    def job() -> None:
        for epoch in range(1, 10):
            results.put([epoch])

    thread = threading.Thread(target=job)
    thread.start()
    results.close()
    thread.join(200)
    assert not thread.is_alive()
    assert list(results) == []
    # A commit after that finds nobody, which is no error.
    sink = CollectSink(results.name)
    sink.create_committer().commit(write(sink, [1]), at(20))


def test_an_error_comes_after_the_records(results: CollectedResults) -> None:
    results.put(["a"])
    results.finish(JobExecutionError("it failed"))
    found = []
    with pytest.raises(JobExecutionError, match="it failed"):
        for value in results:
            found.append(value)
    assert found == ["a"]


def test_receivers_have_names_of_their_own(results: CollectedResults) -> None:
    with pytest.raises(ProgramError, match="exists already"):
        CollectedResults(results.name)


# -- printing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifier", "parallelism", "expected"),
    [
        (None, 1, "x\ny\n"),
        ("", 1, "x\ny\n"),
        (None, 4, "3> x\n3> y\n"),
        ("id", 1, "id> x\nid> y\n"),
        ("id", 4, "id:3> x\nid:3> y\n"),
    ],
)
def test_prefixes(
    capsys: pytest.CaptureFixture[str], identifier: str | None, parallelism: int, expected: str
) -> None:
    sink = PrintSink(identifier)
    job = str(hash((identifier, parallelism)))
    committables = write(sink, ["x", "y"], subtask=2, parallelism=parallelism)
    sink.create_committer().commit(committables, replace(at(1), job_id=job))
    assert capsys.readouterr().out == expected


def test_printing_goes_by_epoch_and_subtask_and_never_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = PrintSink(to_stderr=True)
    committables = write(sink, [3], 2) + write(sink, [2], 1, subtask=1) + write(sink, [1], 1)
    sink.create_committer().commit(committables, at(2, "c"))
    sink.create_committer().commit(committables + write(sink, [4], 3), at(3, "c"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "1\n2\n3\n4\n")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Row("a", 1), "+I[a,1]"),
        (Row.of_kind(RowKind.DELETE, None), "-D[None]"),
        ("text", "text"),
    ],
)
def test_rows_are_printed_as_pyflink_does(value: Any, expected: str) -> None:
    assert format_row(value) == expected


@pytest.mark.parametrize("value", [None, (1, "a"), {"k": 1.5}, "é", 7])
def test_values_are_printed_with_str(capsys: pytest.CaptureFixture[str], value: Any) -> None:
    sink = PrintSink()
    context = replace(at(1), job_id=f"print {value}")
    sink.create_committer().commit(write(sink, [value]), context)
    assert capsys.readouterr().out == f"{value}\n"
