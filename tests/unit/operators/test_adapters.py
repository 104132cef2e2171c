"""Function objects, callables, and everything that is neither."""

from __future__ import annotations

import json
import pickle
import threading

import pytest

from penstock.core.errors import ProgramError
from penstock.operators import functions as fn


class Double(fn.MapFunction):
    def map(self, value):
        return value * 2


class Big(fn.FilterFunction):
    def filter(self, value):
        return value > 10


class Add(fn.ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Parity(fn.KeySelector):
    def get_key(self, value):
        return value % 2


class Modulo(fn.Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


def test_objects_and_callables_are_both_fine():
    assert fn.as_map(Double())(4) == 8
    assert fn.as_map(lambda value: value + 1)(4) == 5
    assert fn.as_map(int)("4") == 4
    assert fn.as_map(str.upper)("a") == "A"
    assert fn.as_filter(Big())(11) is True
    assert fn.as_reduce(Add())(1, 2) == 3
    assert fn.as_reduce(max)(1, 2) == 2
    assert fn.as_key_selector(Parity())(3) == 1
    assert fn.as_partitioner(Modulo())(7, 4) == 3
    assert fn.as_flat_map(str.split)("a b") == ["a", "b"]


@pytest.mark.parametrize(
    ("adapt", "given", "text"),
    [
        (fn.as_map, 5, "int 5 was given where a MapFunction or a callable is needed"),
        (fn.as_map, Big(), "Big <.*> was given where a MapFunction"),
        (fn.as_map, Double, r"the class Double \(not an instance: are the brackets missing\?\)"),
        (fn.as_filter, None, "NoneType None was given where a FilterFunction"),
        (fn.as_reduce, "add", r"reduce\(value1, value2\)"),
        (fn.as_key_selector, 0, r"get_key\(value\)"),
        (fn.as_partitioner, Parity(), r"partition\(key, num_partitions\)"),
    ],
)
def test_anything_else_is_told_what_is_needed(adapt, given, text):
    with pytest.raises(ProgramError, match=text):
        adapt(given)


def test_process_functions_must_be_objects():
    with pytest.raises(ProgramError, match=r"where a ProcessFunction is needed. Subclass it"):
        fn.as_instance(lambda value, ctx: None, fn.ProcessFunction)


def test_a_forgotten_method_is_found_when_the_object_is_made():
    class Forgot(fn.MapFunction):
        pass

    with pytest.raises(TypeError, match="map"):
        Forgot()


class Opened(fn.KeySelector):
    def open(self, runtime_context):
        self.table = {1: "one"}

    def get_key(self, value):
        return self.table[value]


class AsksForState(fn.KeySelector):
    def open(self, runtime_context):
        runtime_context.get_state(None)

    def get_key(self, value):
        return value


def test_a_key_selector_is_opened_before_its_first_use():
    selector = fn.as_key_selector(Opened())
    assert selector(1) == "one"
    assert pickle.loads(pickle.dumps(selector))(1) == "one"


def test_a_key_selector_has_no_state():
    with pytest.raises(ProgramError, match=r"open\(\) of AsksForState called get_state\(\)"):
        fn.as_key_selector(AsksForState())(1)


class Holder(fn.MapFunction):
    def __init__(self, thing):
        self.thing = thing
        self.module = json

    def map(self, value):
        return value


def test_each_subtask_gets_its_own_object():
    original = Holder([1])
    copy = fn.private_copy(original)
    assert copy is not original
    assert copy.thing == [1]
    assert copy.thing is not original.thing
    assert copy.module is json


def test_plain_functions_are_not_copied():
    assert fn.private_copy(test_plain_functions_are_not_copied) is (
        test_plain_functions_are_not_copied
    )


def test_what_cannot_be_copied_belongs_into_open():
    with pytest.raises(ProgramError, match=r"Holder cannot be copied .* in open\(\)"):
        fn.private_copy(Holder(threading.Lock()))


def test_the_module_exports_what_it_says():
    assert fn.__all__ == sorted(fn.__all__)
    assert all(hasattr(fn, name) for name in fn.__all__)
