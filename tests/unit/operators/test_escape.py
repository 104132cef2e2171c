"""Which functions can keep what they return: an unknown one may, so it must not be believed."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import functools
import json
import re

import pytest

from penstock.core.row import Row
from penstock.operators.adapters import keeps_nothing

Pair = collections.namedtuple("Pair", "left right")
CACHE: dict = {}
LIMIT, LETTERS, WORD = 5, ("a", ("b",)), re.compile(r"\w+")
SHARED = ("a", [])


class Colour(enum.Enum):
    RED = 1


class Plain:
    def __init__(self, number):
        self.number = number


class Registered:
    everyone: list = []

    def __init__(self, number):
        self.everyone.append(self)


class Remembered:
    def __new__(cls, *args):
        return CACHE.setdefault(args, object.__new__(cls))


class Configured:
    defaults: dict = {}

    @staticmethod
    def get(value):
        return CACHE


class Meta(type):
    pass


class OfMeta(metaclass=Meta):
    pass


@dataclasses.dataclass
class Item:
    name: str
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Hooked:
    name: str

    def __post_init__(self):
        CACHE[self.name] = self


def helper(value):
    return {"value": value}


def cyclic(value):
    return cyclic(value)


@functools.lru_cache
def cached(value):
    return {"value": value}


def returns_argument(value):
    value["seen"] = True
    value.update(more=[1])
    return value


def parses(line):
    left, _, right = line.partition("\t")
    return {"left": int(left), "right": [word for word in right.split() if len(word) > LIMIT]}


def captures_a_local(line):
    shortest = len(line)
    return [word for word in line.split() if len(word) < shortest]


def makes(*kinds):
    return [lambda value, kind=kind: kind(value) for kind in kinds]


HARMLESS = [
    *(int, str, helper, returns_argument, parses, captures_a_local, lambda value: (value, LETTERS)),
    *(lambda value: json.loads(value), lambda value: Row(a=value), lambda value: Pair(value, 1)),
    *(lambda value: Plain(value), lambda value: Item(value), lambda value: helper(value)),
    *(lambda value: len(WORD.findall(value)), lambda value: 1.5, lambda value: Colour(value)),
    *(lambda value: datetime.date(value, 1, 1), lambda value: datetime.UTC),
    *makes(Plain, Item, int),
]


def sets_a_global(value):
    global LAST
    LAST = value
    return value


def keeps_on_itself(value):
    keeps_on_itself.last = value
    return value


def default(value, seen=[]):  # noqa: B006 - what it is about
    seen.append(value)
    return seen


def closure():
    out = {}

    def fill(value):
        out["value"] = value
        return out

    return fill


def counter():
    last = None

    def remember(value):
        nonlocal last
        last = value
        return value

    return remember


def imports(value):
    import somewhere

    return somewhere.keep(value)


def generates(value):
    out = {}
    for number in range(3):
        out["n"] = number
        yield out


def marks_a_class(value):
    Plain.last = value
    return value


def marks_by_another_name(value):
    kind = Plain
    kind.last = value
    return value


class Mapper:
    def map(self, value):
        return value


HARMFUL = [
    *(sets_a_global, keeps_on_itself, default, closure(), counter(), imports, generates, cyclic),
    *(lambda value: CACHE, lambda value: CACHE.setdefault(value, {}), lambda value: SHARED),
    *(lambda value: Registered(value), lambda value: Remembered(value), lambda value: OfMeta()),
    *(lambda value: Hooked(value), lambda value: cached(value), lambda value: value.register()),
    *(lambda value: setattr(Plain, "last", value), lambda value: unknown(value)),  # noqa: F821
    *(lambda value: globals()["CACHE"], lambda value: eval("CACHE"), cached, Mapper().map),
    *(lambda value: Configured.defaults, lambda value: Configured.get(value)),
    *(lambda value: value.defaults, marks_a_class, marks_by_another_name),
    *(functools.partial(helper, 1), Plain, lambda value: [CACHE for _ in value]),
    *makes(Registered, Hooked, cached),
]


@pytest.mark.parametrize("number", range(len(HARMLESS)))
def test_functions_that_reach_nothing(number):
    assert keeps_nothing(HARMLESS[number])


@pytest.mark.parametrize("number", range(len(HARMFUL)))
def test_functions_that_may_keep_something(number):
    assert not keeps_nothing(HARMFUL[number])
