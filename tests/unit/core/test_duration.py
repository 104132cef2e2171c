"""Spans and sizes in every spelling; the numbers are worked by hand."""

from __future__ import annotations

import datetime

import pytest

from penstock.core.errors import ProgramError
from penstock.core.times import (
    Duration,
    Instant,
    Time,
    format_millis,
    parse_bytes,
    parse_millis,
    size_text,
    span_text,
    to_millis,
)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("250", 250),
        ("0", 0),
        ("500 ms", 500),
        ("10 s", 10_000),
        ("10s", 10_000),
        (" 3 min ", 180_000),
        ("2 m", 120_000),
        ("1 h", 3_600_000),
        ("1 d", 86_400_000),
        ("2 days", 172_800_000),
        ("5 Seconds", 5_000),
        ("3 millis", 3),
        ("1500 us", 1),
        ("2000000 ns", 2),
    ],
)
def test_text_as_span(text: str, millis: int) -> None:
    assert parse_millis(text) == millis


@pytest.mark.parametrize("text", ["", "s", "10 parsecs", "-1 s", "1.5 s", "10 s s", "s 10"])
def test_text_that_is_no_span(text: str) -> None:
    with pytest.raises(ProgramError, match=r"the timeout is '.*', which is no span of time"):
        parse_millis(text, "the timeout")


@pytest.mark.parametrize(
    ("value", "millis"),
    [
        (Time.seconds(3), 3_000),
        (Time.minutes(2), 120_000),
        (Time.hours(1), 3_600_000),
        (Time.days(1), 86_400_000),
        (Time.milliseconds(7), 7),
        (Duration.of_seconds(3), 3_000),
        (Duration.of_minutes(1), 60_000),
        (Duration.of_hours(1), 3_600_000),
        (Duration.of_days(1), 86_400_000),
        (Duration.of_millis(9), 9),
        (Duration.of_nanos(1_999_999), 1),
        (datetime.timedelta(seconds=1.5), 1_500),
        (datetime.timedelta(milliseconds=-1), -1),
        (1234, 1234),
        ("2 s", 2_000),
    ],
)
def test_values_as_span(value: object, millis: int) -> None:
    assert to_millis(value) == millis


@pytest.mark.parametrize("value", [None, 1.5, True, object])
def test_value_that_is_no_span(value: object) -> None:
    with pytest.raises(ProgramError, match=r"allowed lateness is .*give a Time, a Duration"):
        to_millis(value, "allowed lateness")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("20kb", 20_480),
        ("20 kb", 20_480),
        ("32MB", 33_554_432),
        ("1 g", 1_073_741_824),
        ("1tb", 1_099_511_627_776),
        ("7 b", 7),
    ],
)
def test_text_as_size(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_text_that_is_no_size() -> None:
    with pytest.raises(ProgramError, match="'20 apples', which is no size"):
        parse_bytes("20 apples")


def test_spans_compare_and_show_themselves() -> None:
    assert Time.seconds(60) == Time.minutes(1)
    assert Time.seconds(59) < Time.minutes(1)
    assert hash(Duration.of_seconds(1)) == hash(Duration.of_millis(1_000))
    assert Duration.of_millis(1) <= Duration.of_millis(2)
    assert repr(Time.seconds(90)) == "Time(90 s)"
    assert repr(Duration.of_hours(2)) == "Duration(2 h)"
    assert repr(Duration.of_nanos(5)) == "Duration(5 ns)"
    assert [format_millis(ms) for ms in (0, 1, 1_500, 60_000)] == [
        "0 ms",
        "1 ms",
        "1500 ms",
        "1 min",
    ]


def test_instant_counts_from_1970() -> None:
    assert Instant.of_epoch_milli(1_234).seconds == 1
    assert Instant.of_epoch_milli(1_234).nanos == 234_000_000
    # Before 1970 seconds round down and nanoseconds stay positive, as in Java.
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    assert Instant(-1, 999_000_000).to_epoch_milli() == -1
    assert Instant(1, 5) < Instant(1, 6) < Instant(2, 0)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (20_000, "20 kB"),
        (3_400_000_000, "3.4 GB"),
        (3_400_000_000_000, "3,400 GB"),
    ],
)
def test_sizes_for_people(number: int | None, text: str) -> None:
    assert size_text(number) == text


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "0 ms"),
        (450.6, "450 ms"),
        (12_900, "12 s"),
        (185_000, "3 min 5 s"),
        (7_800_000, "2 h 10 min"),
        (90_000_000_000, "1,041 d 16 h"),
    ],
)
def test_spans_for_people(millis: float, text: str) -> None:
    assert span_text(millis) == text
