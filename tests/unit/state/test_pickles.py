"""Pickles that offline readers read, and those that they leave alone."""

from __future__ import annotations

import datetime
import decimal
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from penstock.core.row import Row
from penstock.state.plain_serializer import pickle_bytes, unpickled_plain

if TYPE_CHECKING:
    from collections.abc import Callable

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.datetimes()
    | st.timedeltas()
    | st.dates()
    | st.decimals(allow_nan=False)
)
VALUES = st.recursive(
    ATOMS,
    lambda parts: st.lists(parts) | st.tuples(parts, parts) | st.dictionaries(st.text(), parts),
)


@given(VALUES)
def test_built_in_values_come_back(value: Any) -> None:
    assert unpickled_plain(pickle_bytes(value, "a state")) == value


def test_sets_aware_times_and_long_lists_come_back() -> None:
    value = [
        {1, 2},
        frozenset("ab"),
        bytearray(b"x"),
        datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC),
        decimal.Decimal("1.50"),
        # Written apart, without a memo.
        [(number, str(number)) for number in range(1_000)],
    ]
    assert unpickled_plain(pickle_bytes(value, "a state")) == value


class Trace:
    """Calls something when it is unpickled."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.call = call, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_nothing_else_is_called(tmp_path: Path) -> None:
    place = tmp_path / "ran"
    hidden = pickle.dumps([Trace(Path.touch, place)])
    calls = [
        Trace(Path.touch, place),
        # The one function that may be called reads no other pickles than the first did.
        Trace(pickle.loads, hidden),
        Trace(eval, f"open({str(place)!r}, 'w')"),
        Trace(getattr, [], "append"),
    ]
    for data in [pickle.dumps({"key": (1, call)}) for call in calls]:
        with pytest.raises((KeyError, pickle.UnpicklingError)):
            unpickled_plain(data)
    assert not place.exists()
    pickle.loads(pickle.dumps(calls[0]))
    assert place.exists(), "the pickle does what it claims to do"


def test_instances_of_classes_are_left_alone() -> None:
    for value in (Row(a=1), Path(), test_nothing_else_is_called, datetime.tzinfo()):
        with pytest.raises(KeyError):
            unpickled_plain(pickle.dumps(value))
