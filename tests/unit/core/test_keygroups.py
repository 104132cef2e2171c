"""Key groups against Flink 2.3's own `MathUtils` and `KeyGroupRangeAssignment`, run on a JVM."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import subprocess
import sys
import zlib

import pytest
from hypothesis import given, strategies as st

from penstock.core.errors import ProgramError
from penstock.core.keygroups import (
    canonical_bytes,
    default_max_parallelism,
    key_group,
    key_group_range,
    key_groups_of_codes,
    murmur,
    owners_of,
    subtask_of,
)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0, 593689054),
        (1, 68075478),
        (0xFFFFFFFF, 1982413648),
        (42, 1134849565),
        (12345, 638799361),
        (0x80000000, 1718298732),
        (0x7FFFFFFF, 1653689534),
        (0xDEADBEEF, 1047277220),
    ],
)
def test_murmur_is_flinks(word: int, expected: int) -> None:
    assert murmur(word) == expected


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (2, 128), (85, 128), (86, 256), (128, 256), (30000, 32768)],
)
def test_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


FLINK_RANGES = {
    3: [(0, 42), (43, 85), (86, 127)],
    5: [(0, 25), (26, 51), (52, 76), (77, 102), (103, 127)],
    7: [(0, 18), (19, 36), (37, 54), (55, 73), (74, 91), (92, 109), (110, 127)],
}


@pytest.mark.parametrize("parallelism", FLINK_RANGES)
def test_ranges_are_flinks(parallelism: int) -> None:
    found = [key_group_range(index, parallelism, 128) for index in range(parallelism)]
    assert found == FLINK_RANGES[parallelism]


@given(st.integers() | st.text() | st.tuples(st.text()), st.integers(1, 32768))
def test_the_written_out_hash_agrees_with_murmur(key: object, groups: int) -> None:
    assert key_group(key, groups) == murmur(zlib.crc32(canonical_bytes(key))) % groups


@given(st.integers(1, 300), st.integers(1, 300))
def test_ranges_and_owners_agree(parallelism: int, extra: int) -> None:
    groups = parallelism + extra
    for index in range(parallelism):
        first, last = key_group_range(index, parallelism, groups)
        for group in {first, last}:
            assert subtask_of(group, parallelism, groups) == index


def test_equal_keys_have_equal_bytes() -> None:
    assert canonical_bytes(1) == canonical_bytes(1.0) == canonical_bytes(True)
    assert canonical_bytes(decimal.Decimal("1.00")) == canonical_bytes(1)
    assert canonical_bytes(0.0) == canonical_bytes(-0.0)
    assert canonical_bytes((1, "a")) == canonical_bytes((1.0, "a"))


class Level(enum.IntEnum):
    LOW = 1


class Name(str, enum.Enum):  # noqa: UP042 - str() of its members is not their value
    A = "a"


class Moment(datetime.datetime):
    pass


EAST = datetime.timezone(datetime.timedelta(hours=2))
UTC = datetime.UTC
NEW_YEAR = datetime.datetime.fromisoformat("2020-01-01")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Level.LOW, 1),
        (Name.A, "a"),
        (decimal.Decimal("0.5"), 0.5),
        (decimal.Decimal("0.10"), decimal.Decimal("0.1")),
        (decimal.Decimal("Infinity"), math.inf),
        (decimal.Decimal("-Infinity"), -math.inf),
        (10**5000, decimal.Decimal(10**5000)),
        (
            datetime.datetime(2020, 1, 1, 2, tzinfo=EAST),
            datetime.datetime(2020, 1, 1, tzinfo=UTC),
        ),
        (datetime.time(2, tzinfo=EAST), datetime.time(0, tzinfo=UTC)),
        (datetime.time(1, tzinfo=EAST), datetime.time(1, tzinfo=EAST, fold=1)),
        (NEW_YEAR.replace(fold=1), NEW_YEAR),
        (Moment.fromisoformat("2020-01-01"), NEW_YEAR),
    ],
    ids=lambda key: type(key).__name__,
)
def test_equal_keys_of_different_classes_have_equal_bytes(one: object, other: object) -> None:
    assert one == other
    assert canonical_bytes(one) == canonical_bytes(other)
    assert canonical_bytes((one, "x")) == canonical_bytes((other, "x"))


def test_different_keys_that_look_alike_have_different_bytes() -> None:
    third = decimal.Decimal(1) / 3
    keys = [
        NEW_YEAR,
        datetime.datetime(2020, 1, 1, tzinfo=UTC),
        datetime.datetime(2020, 1, 1, tzinfo=EAST),
        datetime.date(2020, 1, 1),
        datetime.datetime.min.replace(tzinfo=EAST),
        datetime.datetime.max.replace(tzinfo=UTC),
        datetime.time(0),
        datetime.time(0, tzinfo=UTC),
        datetime.timedelta(0),
        third,
        float(third),
        # More digits than a context keeps.
        decimal.Decimal(f"0.{'3' * 40}1"),
        decimal.Decimal(f"0.{'3' * 40}2"),
        10**5000,
        10**5000 + 1,
    ]
    assert len(set(map(canonical_bytes, keys))) == len(keys)
    assert key_group(keys[-1], 128) in range(128)


@given(st.lists(st.text() | st.integers() | st.binary(), max_size=3).map(tuple))
def test_tuples_are_framed(parts: tuple[object, ...]) -> None:
    # ("ab", "c") and ("a", "bc") must differ: every part carries its length.
    assert canonical_bytes((*parts, "ab", "c")) != canonical_bytes((*parts, "a", "bc"))
    assert canonical_bytes((parts,)) != canonical_bytes(parts)


@given(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.dates()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.sampled_from([None, UTC, EAST]))
    | st.tuples(st.integers(), st.text()),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.dates()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.sampled_from([None, UTC, EAST]))
    | st.tuples(st.integers(), st.text()),
)
def test_bytes_are_equal_exactly_when_keys_are(one: object, two: object) -> None:
    if one is None or two is None:
        return
    assert (canonical_bytes(one) == canonical_bytes(two)) == (one == two)


@pytest.mark.parametrize("key", [math.nan, decimal.Decimal("NaN"), [1], {"a": 1}, object()])
def test_keys_without_stable_bytes_are_refused(key: object) -> None:
    with pytest.raises(ProgramError, match="key"):
        canonical_bytes(key)


def test_fields_of_a_composite_key_may_be_missing() -> None:
    found = {
        canonical_bytes(key) for key in [(None, 1), (1, None), (None,), ("", None), ((), None)]
    }
    assert len(found) == 5


def test_huge_keys_are_refused() -> None:
    assert key_group("x" * 65536, 128) in range(128)
    with pytest.raises(ProgramError, match="digest"):
        canonical_bytes("x" * (16 * 1024 * 1024 + 1))


def test_key_groups_are_the_same_in_another_process() -> None:
    keys = ["a", "ü", 17, -(2**70), 2.5, (1, ("x", b"\x00")), datetime.date(2020, 2, 29)]
    code = (
        "import datetime\nfrom penstock.core.keygroups import key_group\n"
        f"print([key_group(key, 32768) for key in {keys!r}])"
    )
    output = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    ).stdout
    assert output.strip() == repr([key_group(key, 32768) for key in keys])


@dataclasses.dataclass(frozen=True)
class Place:
    x: int
    name: str
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Other:
    x: int
    name: str


def test_dataclasses_are_keys_by_the_fields_they_compare() -> None:
    assert canonical_bytes(Place(1, "a", "seen")) == canonical_bytes(Place(1, "a"))
    others = [Place(1, "b"), Place(2, "a"), Other(1, "a"), (1, "a"), Place]
    for other in others[:-1]:
        assert canonical_bytes(other) != canonical_bytes(Place(1, "a"))
    with pytest.raises(ProgramError, match="no stable hash"):
        canonical_bytes(others[-1])


@pytest.mark.parametrize("maximum", [128, 1000, 32768])
@pytest.mark.parametrize("parallelism", [1, 2, 7])
def test_owners_of_many_keys_are_those_of_each(maximum: int, parallelism: int) -> None:
    pytest.importorskip("numpy")
    lists: list[list[int] | list[str]] = [
        [*range(-1000, 1000), 2**70, -(2**70)],
        [f"käse {number}" for number in range(1000)] + ["", "\0"],
    ]
    for keys in lists:
        assert owners_of(keys, parallelism, maximum) == [
            subtask_of(key_group(key, maximum), parallelism, maximum) for key in keys
        ]


def test_owners_of_other_keys_are_asked_one_by_one() -> None:
    for keys in ([1, True], [1, "a"], [(1, 2)], [1.0], ["\ud800"], [None], [10**5000]):
        assert owners_of(keys, 2, 128) is None


def test_codes_of_many_keys_are_flinks() -> None:
    pytest.importorskip("numpy")
    # The murmur of the last one is Java's least int, whose absolute value is none: it counts as 0.
    codes = [*range(5000), 0x80000000, 0xFFFFFFFF, 2205091669]
    groups = key_groups_of_codes(codes, 1000).tolist()
    assert groups == [murmur(code) % 1000 for code in codes]
    assert groups[-1] == 0
