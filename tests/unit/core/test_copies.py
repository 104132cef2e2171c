"""Copies of records: equal, of the same type, and sharing nothing that can change."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import threading
import uuid
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import pytest
from hypothesis import given, strategies as st

from penstock.core.copies import snapshot, snapshots
from penstock.core.row import Row, RowKind
from penstock.core.times import Duration, Instant
from penstock.operators.results import OutputTag

Pair = namedtuple("Pair", "left right")


class Colour(enum.Enum):
    RED = 1


class Plain:
    def __init__(self, *tags):
        self.tags = list(tags)

    def __eq__(self, other):
        return type(other) is Plain and other.tags == self.tags


@dataclasses.dataclass
class Item:
    name: str
    tags: list


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    tags: tuple


class Slotted:
    __slots__ = ("tags",)

    def __init__(self, tags):
        self.tags = tags

    def __eq__(self, other):
        return other.tags == self.tags


class Private(Slotted):
    __slots__ = ("__hidden", "unset")

    def __init__(self, hidden):
        super().__init__(["x"])
        self.__hidden = hidden

    def hidden(self):
        return self.__hidden


class Named(str):
    pass


class Copied:
    """Says itself how it is copied."""

    def __init__(self, tags):
        self.tags = tags

    def __reduce__(self):
        return Copied, ([*self.tags, "copied"],)


IMMUTABLE = [
    *(None, True, 7, 2.5, "text", b"bytes", 1j, (), (1, "a", (2, None)), frozenset((1,))),
    *(
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        datetime.date(2026, 1, 1),
        datetime.timedelta(1),
    ),
    *(decimal.Decimal("1.5"), uuid.UUID(int=5), Colour.RED, RowKind.INSERT, Plain, len),
    *(Duration.of_millis(5), Instant(1, 2), OutputTag("late"), Pair(1, 2), Frozen("a", (1,))),
]


@pytest.mark.parametrize("value", IMMUTABLE, ids=lambda value: type(value).__name__)
def test_what_cannot_change_is_not_copied(value):
    assert snapshot(value) is value or value == frozenset((1,))
    assert snapshots([value]) == [value]


def named_row():
    return Row.of_kind(RowKind.DELETE, name="a", tags=["x"])


MUTABLE = [
    *(lambda: ["x"], lambda: [["x"]], lambda: {"a": ["x"]}, lambda: {"a": 1}, lambda: {"x"}),
    *(
        lambda: bytearray(b"x"),
        lambda: (1, ["x"]),
        lambda: ((("x",), ["y"]), 1),
        lambda: [(["x"],)],
    ),
    *(lambda: Row(1, ["x"]), lambda: Row(1, 2), named_row, lambda: Pair(["x"], 1)),
    *(lambda: Plain("x"), lambda: Item("a", ["x"]), lambda: Frozen("a", (["x"],))),
    *(lambda: Slotted(["x"]), lambda: deque(["x"], 3), lambda: defaultdict(list, a=["x"])),
    *(lambda: OrderedDict(a=1), lambda: Counter("x")),
]


def changeable(value, seen):
    """Collects the ids of everything inside that has a way to change."""
    if isinstance(value, (list, dict, set, bytearray, deque, Row, Plain, Item, Slotted)):
        seen.add(id(value))
    if isinstance(value, dict):
        value = list(value.values())
    elif hasattr(value, "tags"):
        value = [value.tags]
    if isinstance(value, (list, tuple, set, deque, Row)):
        for part in value:
            changeable(part, seen)
    return seen


@pytest.mark.parametrize("make", MUTABLE, ids=lambda make: type(make()).__name__)
def test_what_can_change_is_copied_as_deep_as_it_can(make):
    value = make()
    copied = snapshot(value)
    assert copied == make()
    assert type(copied) is type(value)
    assert changeable(copied, set()).isdisjoint(changeable(value, set()))
    assert len(changeable(copied, set())) == len(changeable(value, set()))


def test_a_row_keeps_names_and_kind_and_a_deque_its_length():
    row = snapshot(named_row())
    assert row.name == "a"
    assert row.get_row_kind() is RowKind.DELETE
    assert snapshot(deque([[1]], 3)).maxlen == 3
    assert snapshot(defaultdict(list, a=["x"])).default_factory is list


def test_slots_of_base_classes_private_and_unset_ones():
    value = Private(["y"])
    copied = snapshot(value)
    assert copied.hidden() == ["y"]
    assert copied.hidden() is not value.hidden()
    assert copied == value
    assert not hasattr(copied, "unset")


def test_classes_that_say_how_they_are_copied_are_asked():
    assert snapshot(Copied([])).tags == ["copied"]
    assert snapshot({"a": Copied([])})["a"].tags == ["copied"]


def test_a_value_that_holds_itself_is_copied():
    ring = ["a"]
    ring.append(ring)
    copied = snapshot(ring)
    assert copied is not ring
    assert copied[1] is copied
    me = Plain()
    me.tags = me
    assert snapshot(me).tags.tags is not me


def test_what_cannot_be_copied_is_handed_on_as_it_is():
    lock = threading.Lock()
    numbers = (number for number in (1, 2))
    assert snapshot(lock) is lock
    assert snapshot(numbers) is numbers
    record = {"lock": lock, "seen": []}
    copied = snapshot(record)
    assert copied["lock"] is lock
    assert copied["seen"] is not record["seen"]


def test_a_list_is_the_same_list_if_nothing_in_it_can_change():
    for values in ([], [1, "a"], [(1, 2), (3, "b")]):
        assert snapshots(values) is values
    values = [(1, 2), (3, ["b"])]
    assert snapshots(values) == values
    assert snapshots(values)[1][1] is not values[1][1]
    assert snapshots(values)[0] is values[0]


plain = st.recursive(
    st.none() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(plain)
def test_any_plain_value(value):
    copied = snapshot(value)
    assert copied == value
    assert changeable(copied, set()).isdisjoint(changeable(value, set()))


def test_text_of_a_class_of_its_own():
    assert type(snapshot(Named("a"))) is Named
