"""User functions with operator state."""

from __future__ import annotations

import pytest

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.datastream.program import FinalReduce
from penstock.operators.adapters import as_key_selector
from penstock.operators.function_logic import FlatMapSpec, MapSpec
from penstock.operators.functions import FlatMapFunction, KeySelector, MapFunction, ReduceFunction
from penstock.operators.runtime_context import CheckpointedFunction
from penstock.operators.windows.contents import ReduceContents
from penstock.state.descriptors import ListStateDescriptor
from penstock.testing.harness import OneOperatorHarness


class Pairs(FlatMapFunction, CheckpointedFunction):
    """Emits records two by two; what waits for its partner is operator state."""

    def __init__(self):
        self.calls = []

    def initialize_state(self, context):
        self.calls.append("restored" if context.is_restored() else "new")
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("waiting"))
        self.waiting = list(self.state.get())

    def open(self, runtime_context):
        self.calls.append("open")

    def snapshot_state(self, context):
        self.calls.append((context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        self.state.update(self.waiting)

    def flat_map(self, value):
        self.waiting.append(value)
        if len(self.waiting) == 2:
            yield tuple(self.waiting)
            self.waiting.clear()


def test_state_is_initialized_before_open_and_taken_at_the_end_of_each_epoch():
    harness = OneOperatorHarness(FlatMapSpec(Pairs()), now_ms=70)
    harness.process(1, 2, 3)
    first = harness.snapshot()
    harness.process(4, 5)
    harness.snapshot()
    harness.restore(first)
    harness.take()
    harness.process(40)
    assert harness.values == [(3, 40)]
    harness.snapshot()
    assert harness.logic.function.calls == ["new", "open", (1, 70), (2, 70), "restored", (2, 70)]


class Adds(ReduceFunction, KeySelector, CheckpointedFunction):
    def initialize_state(self, context):
        raise AssertionError

    def snapshot_state(self, context):
        raise AssertionError

    def get_key(self, value):
        return value

    def reduce(self, value1, value2):
        return value1 + value2


@pytest.mark.parametrize("place", [as_key_selector, ReduceContents, FinalReduce])
def test_where_nobody_would_ask_for_state_it_is_refused(place):
    with pytest.raises(ProgramError, match=r"Adds is a CheckpointedFunction, but .* never be call"):
        place(Adds())


class WantsKeyed(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        context.get_keyed_state_store()

    def snapshot_state(self, context):
        pass

    def map(self, value):
        return value


def test_keyed_state_needs_a_key():
    with pytest.raises(UserFunctionError, match="asked for keyed state in initialize_state"):
        OneOperatorHarness(MapSpec(WantsKeyed()))
    OneOperatorHarness(MapSpec(WantsKeyed(), keyed=True), key=str)
