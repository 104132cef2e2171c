"""What a function learns in `open`."""

from __future__ import annotations

import pytest

from penstock.core.errors import UserFunctionError
from penstock.operators.function_logic import MapSpec
from penstock.operators.functions import MapFunction
from penstock.state.descriptors import ListStateDescriptor
from penstock.testing.harness import OneOperatorHarness


class Facts(MapFunction):
    def open(self, runtime_context):
        self.context = runtime_context

    def map(self, value):
        c = self.context
        return (
            c.get_task_name(),
            c.get_number_of_parallel_subtasks(),
            c.get_max_number_of_parallel_subtasks(),
            c.get_index_of_this_subtask(),
            c.get_attempt_number(),
            c.get_task_name_with_subtasks(),
            c.get_job_parameter("x", "none"),
            c.get_job_parameter("y", "none"),
            c.get_job_parameters(),
        )


def test_the_runtime_context():
    harness = OneOperatorHarness(
        MapSpec(Facts()), name="Facts", subtask=1, parallelism=4, parameters={"x": "1"}
    )
    harness.process(0)
    assert harness.values == [("Facts", 4, 128, 1, 0, "Facts (2/4)#0", "1", "none", {"x": "1"})]


def test_state_of_a_wrong_kind_is_refused():
    class Wrong(Facts):
        def open(self, runtime_context):
            runtime_context.get_state(ListStateDescriptor("list"))

    with pytest.raises(UserFunctionError, match="given ListStateDescriptor; it takes a ValueState"):
        OneOperatorHarness(MapSpec(Wrong(), keyed=True), key=str)
