"""Function objects, callables, and everything that is neither."""

from __future__ import annotations

import contextlib
import json
import pickle
import threading

import pytest

from penstock.core.errors import ProgramError
from penstock.operators.adapters import (
    as_filter,
    as_flat_map,
    as_instance,
    as_key_selector,
    as_map,
    as_partitioner,
    as_reduce,
    private_copy,
)
from penstock.operators.async_function import AsyncFunction
from penstock.operators.functions import (
    FilterFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
)
from penstock.operators.runtime_context import CheckpointedFunction


class Double(MapFunction):
    def map(self, value):
        return value * 2


class Big(FilterFunction):
    def filter(self, value):
        return value > 10


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Parity(KeySelector):
    def get_key(self, value):
        return value % 2


class Modulo(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


def test_objects_and_callables_are_both_fine():
    assert as_map(Double())(4) == 8
    assert as_map(lambda value: value + 1)(4) == 5
    assert as_map(int)("4") == 4
    assert as_map(str.upper)("a") == "A"
    assert as_filter(Big())(11) is True
    assert as_reduce(Add())(1, 2) == 3
    assert as_reduce(max)(1, 2) == 2
    assert as_key_selector(Parity())(3) == 1
    assert as_partitioner(Modulo())(7, 4) == 3
    assert as_flat_map(str.split)("a b") == ["a", "b"]


@pytest.mark.parametrize(
    ("adapt", "given", "text"),
    [
        (as_map, 5, "int 5 was given where a MapFunction or a callable is needed"),
        (as_map, Big(), "Big <.*> was given where a MapFunction"),
        (as_map, Double, r"the class Double \(not an instance: are the brackets missing\?\)"),
        (as_filter, None, "NoneType None was given where a FilterFunction"),
        (as_reduce, "add", r"reduce\(value1, value2\)"),
        (as_key_selector, 0, r"get_key\(value\)"),
        (as_partitioner, Parity(), r"partition\(key, num_partitions\)"),
    ],
)
def test_anything_else_is_told_what_is_needed(adapt, given, text):
    with pytest.raises(ProgramError, match=text):
        adapt(given)


def test_process_functions_must_be_objects():
    with pytest.raises(ProgramError, match=r"where a ProcessFunction is needed. Subclass it"):
        as_instance(lambda value, ctx: None, ProcessFunction)


def test_a_forgotten_method_is_found_when_the_object_is_made():
    class Forgot(MapFunction):
        pass

    with pytest.raises(TypeError, match="map"):
        Forgot()


class Opened(KeySelector):
    def open(self, runtime_context):
        self.table = {1: "one"}

    def get_key(self, value):
        return self.table[value]


class AsksForState(KeySelector):
    def open(self, runtime_context):
        runtime_context.get_state(None)

    def get_key(self, value):
        return value


def test_a_key_selector_is_opened_before_its_first_use():
    selector = as_key_selector(Opened())
    assert selector(1) == "one"
    assert pickle.loads(pickle.dumps(selector))(1) == "one"


def test_a_key_selector_has_no_state():
    with pytest.raises(ProgramError, match=r"open\(\) of AsksForState called get_state\(\)"):
        as_key_selector(AsksForState())(1)


class Holder(MapFunction):
    def __init__(self, thing):
        self.thing = thing
        self.module = json

    def map(self, value):
        return value


def test_each_subtask_gets_its_own_object():
    original = Holder([1])
    copy = private_copy(original)
    assert copy is not original
    assert copy.thing == [1]
    assert copy.thing is not original.thing
    assert copy.module is json


def test_plain_functions_are_not_copied():
    assert private_copy(test_plain_functions_are_not_copied) is (
        test_plain_functions_are_not_copied
    )


def test_what_cannot_be_copied_belongs_into_open():
    with pytest.raises(ProgramError, match=r"Holder cannot be copied .* in open\(\)"):
        private_copy(Holder(threading.Lock()))


def squares(value, _=None):
    yield value * value


class Yields(MapFunction):
    def map(self, value):
        yield value


@pytest.mark.parametrize(
    ("adapt", "function"),
    [
        (as_map, squares),
        (as_map, Yields()),
        (as_filter, squares),
        (as_reduce, squares),
        (as_key_selector, squares),
    ],
)
def test_one_value_is_not_yielded(adapt, function):
    with pytest.raises(ProgramError, match=r"has a yield, but .* returns exactly one value"):
        adapt(function)
    as_flat_map(squares)


class TakesNoContext(KeyedProcessFunction):
    def process_element(self, value):
        yield value


class OpensWithout(MapFunction):
    def open(self):
        pass

    def map(self, value):
        return value


class FiresWithout(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def on_timer(self, timestamp):
        yield timestamp


class Collects(KeyedProcessFunction):
    def process_element(self, value, ctx, out):
        out.collect(value)


class Waits(KeyedProcessFunction):
    async def process_element(self, value, ctx):
        return [value]


class YieldsAndReturns(KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value:
            return [value]
        yield value


async def later(value):
    return value


def yields_and_returns(value):
    if value:
        return value
    yield value


@pytest.mark.parametrize(
    ("adapt", "function", "text"),
    [
        (as_instance, TakesNoContext(), r"TakesNoContext.process_element cannot be called as "),
        (as_map, OpensWithout(), r"OpensWithout.open cannot be called as open\(runtime_context\)"),
        (as_instance, FiresWithout(), r"cannot be called as on_timer\(timestamp, ctx\)"),
        (as_instance, Collects(), r"argument: 'out'\. .* there is no collector: yield the results"),
        (as_instance, Waits(), r"Waits.process_element is a coroutine .* Leave out async"),
        (as_map, later, "later is a coroutine"),
        (as_instance, YieldsAndReturns(), r"has a yield, .* line \d+ is lost"),
        (as_flat_map, yields_and_returns, "yields_and_returns has a yield"),
    ],
)
def test_what_cannot_work_is_told_while_the_program_is_built(adapt, function, text):
    kinds = (KeyedProcessFunction,) if adapt is as_instance else ()
    with pytest.raises(ProgramError, match=text):
        adapt(function, *kinds)


class Fine(KeyedProcessFunction, CheckpointedFunction):
    """Everything that looks like one of the mistakes above and is none."""

    def open(self, *args):
        pass

    def process_element(self, value, ctx=None, *, extra=None):
        with contextlib.nullcontext():
            if not value:
                return None
            if value == 1:
                return []
            if value == 2:
                return print(end="")
        for each in [value]:
            yield each
            if each > 5:
                return

    @staticmethod
    def on_timer(timestamp, ctx):
        return [timestamp]

    def snapshot_state(self, context):
        pass

    def initialize_state(self, context):
        pass

    def helper(self):
        yield 1
        return 2


class Asks(AsyncFunction):
    async def async_invoke(self, value):
        return [value]


def test_what_only_looks_like_a_mistake():
    assert isinstance(as_instance(Fine(), KeyedProcessFunction), Fine)
    assert isinstance(as_instance(Asks(), AsyncFunction), Asks)
