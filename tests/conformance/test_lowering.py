"""Every program that can be lowered gives the same either way: results and late records.

The data have what columns and records might see differently: nulls, NaN, signs, numbers beyond 64
bits, records that are late on one channel only. Reads and epochs are small, so that watermarks fall
between the records of what is read as columns at once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st
from lowering_kit import (
    WINDOWS,
    Record,
    both,
    bounded,
    make_reads_small,
    parquet,
    text,
)

from penstock.datastream.aggregates import (
    all_of,
    avg_of,
    count,
    max_of,
    min_of,
    sum_of,
    window_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream import StreamExecutionEnvironment

AGGREGATES: dict[str, Callable[[], Any]] = {
    "count": count,
    "sum": lambda: sum_of("n"),
    "sum-of-floats": lambda: sum_of("x"),
    "min": lambda: min_of("n"),
    "max-of-floats": lambda: max_of("x"),
    "max-of-text": lambda: max_of("word"),
    "avg": lambda: avg_of("n"),
    "all": lambda: all_of(
        records=count(), n=sum_of("n"), least=min_of("x"), word=min_of("word"), mean=avg_of("x")
    ),
}

records = st.tuples(
    st.integers(-300, 300),
    st.sampled_from("ab"),
    st.sampled_from(["click", "open", "größe"]),
    st.one_of(st.none(), st.integers(-5, 5), st.sampled_from([2**62, -(2**63), 2**63 - 1])),
    st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from([0.1, -0.0, float("nan"), 1e300])),
    st.one_of(st.none(), st.sampled_from(["", "a", "ä", "\U0001f600", "z"])),
)
parts = st.lists(st.lists(records, max_size=40), min_size=1, max_size=3)


@pytest.fixture(autouse=True)
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    make_reads_small(monkeypatch)


numbers = itertools.count()


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=12)
@given(
    lists=parts,
    parallelism=st.integers(1, 2),
    epoch=st.sampled_from([3, 30, 500]),
    backend=st.sampled_from(["hashmap", "rocksdb"]),
)
def test_lowered_is_equal(
    tmp_path_factory: pytest.TempPathFactory,
    aggregate: str,
    window: str,
    lists: list[list[Record]],
    parallelism: int,
    epoch: int,
    backend: str,
) -> None:
    folder = tmp_path_factory.mktemp(f"data{next(numbers)}")
    source = parquet(folder, lists)

    def build(env: StreamExecutionEnvironment) -> Any:
        env.set_parallelism(parallelism)
        stream = env.from_source(source, bounded(), "events").key_by("channel", "behavior")
        windowed = stream.window(WINDOWS[window])
        return windowed.aggregate(AGGREGATES[aggregate](), window_row("channel", "behavior"))

    both(build, penstock__epoch__max_records=str(epoch), state__backend__type=backend)


@settings(max_examples=25)
@given(
    lines=st.lists(
        st.one_of(
            st.tuples(st.integers(-300, 300), st.sampled_from("abc"), st.integers(-9, 9)),
            st.sampled_from(
                [
                    ("007", '"q"', " 5 "),
                    ("+12", "a", "1_0"),
                    ("-0", "x", "0\r"),
                    ("99", "ä", str(2**70)),
                    ("12", '"two\nlines"', "3"),
                    (),
                ]
            ),
        ),
        max_size=40,
    ),
    ends=st.booleans(),
)
def test_lowered_csv_is_equal(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[Any, ...]], ends: bool
) -> None:
    folder = tmp_path_factory.mktemp(f"text{next(numbers)}")
    content = "\n".join(",".join(map(str, line)) for line in lines) + ("\n" if ends else "")
    source = text(folder, content)

    def build(env: StreamExecutionEnvironment) -> Any:
        stream = env.from_source(source, bounded(), "events").key_by("channel")
        return stream.window(WINDOWS["tumbling"]).aggregate(sum_of("n"), window_row("channel"))

    both(build, penstock__epoch__max_records="13")
