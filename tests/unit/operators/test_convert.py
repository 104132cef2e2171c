"""Declared output types: conversion, a sentence on mismatch, and no cost where nothing is to do."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import UserFunctionError
from penstock.core.row import Row
from penstock.core.types import TypeInformation, Types
from penstock.operators.convert import ConvertOutputSpec, with_output_type
from penstock.operators.function_logic import MapSpec
from penstock.operators.functions import ProcessFunction
from penstock.operators.process import ProcessSpec
from penstock.operators.results import OutputTag
from penstock.testing.harness import OneOperatorHarness

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def harness(function: Any, type_info: TypeInformation) -> OneOperatorHarness:
    return OneOperatorHarness(ConvertOutputSpec(MapSpec(function), type_info))


def test_tuples_become_rows() -> None:
    operator = harness(lambda value: (value, 1), PERSON)
    operator.process("a", "b", timestamps=[5, 6])
    assert operator.values == [Row(name="a", age=1), Row(name="b", age=1)]
    assert [event[2] for event in operator.output.events] == [5, 6]


def test_watermarks_and_side_outputs_pass() -> None:
    tag = OutputTag("side")

    class Both(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.output(tag, value)
            yield value, 1

    operator = OneOperatorHarness(ConvertOutputSpec(ProcessSpec(Both()), PERSON))
    operator.process("a")
    operator.watermark(7)
    assert ("side", "side", "a", None) in operator.output.events
    assert ("watermark", 7) in operator.output.events
    assert operator.values == [Row(name="a", age=1)]


def test_wrong_record_is_told_with_operator_and_record() -> None:
    operator = harness(lambda value: "5", Types.INT())
    with pytest.raises(UserFunctionError) as raised:
        operator.process(1)
    said = str(raised.value)
    assert "is not of its output_type: declared INT, got str '5'." in said
    assert raised.value.record == "'5'"
    assert raised.value.operator_name in said


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        (("a", 1), ("a",), "got tuple ('a',), which has 1 fields"),
        (("a", 1), 5, "got int 5"),
        ({"name": "a", "age": 1}, {"name": "a", "years": 1}, "which lacks age"),
    ],
)
def test_wrong_record_behind_a_right_one(good: Any, bad: Any, said: str) -> None:
    operator = harness(lambda value: value, PERSON)
    with pytest.raises(UserFunctionError) as raised:
        operator.process(good, bad)
    assert said in str(raised.value)


def test_batches_that_are_right_pass_as_they_are() -> None:
    operator = harness(lambda value: value, Types.STRING())
    operator.process("a", "b")
    assert operator.values == ["a", "b"]


def test_nothing_is_wrapped_without_need() -> None:
    spec = MapSpec(str)
    assert with_output_type(spec, None) is spec
    assert with_output_type(spec, Types.PICKLED_BYTE_ARRAY()) is spec
    assert with_output_type(spec, Types.INT()) == ConvertOutputSpec(spec, Types.INT())


def test_keyed_operators_stay_keyed() -> None:
    from penstock.operators.reduce import ReduceSpec

    assert ConvertOutputSpec(ReduceSpec(max), Types.INT()).is_keyed
    assert not ConvertOutputSpec(MapSpec(str), Types.STRING()).is_keyed
