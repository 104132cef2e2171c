"""Learns which state the operators of a program have, by opening their functions in this process.

Functions say in `open()` and `initialize_state()` which state they want, as in Flink: there is no
other way to know before the first record. What they obtain is empty and thrown away. A function
that cannot be opened here, or asks for state only when records come, is checked when it runs.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any, cast

from penstock.core.clock import EpochClock
from penstock.core.file_area import FileArea
from penstock.graph.nodes import NodeKind
from penstock.launch.restore_fit import Probed
from penstock.operators.logic import OperatorContext
from penstock.operators.metrics import MetricGroup
from penstock.operators.timers import OperatorTimers
from penstock.runtime.chain import ChainOutput
from penstock.state.backend import create_backend
from penstock.state.heap import HASHMAP
from penstock.state.operator_snapshot import facts_of
from penstock.state.operator_state import OperatorState

if TYPE_CHECKING:
    from penstock.graph.job_graph import ChainedOperator, JobGraph, Stage
    from penstock.operators.logic import OperatorLogic


def probe(graph: JobGraph, parameters: dict[str, str] | None = None) -> dict[str, Probed]:
    """Returns what each operator of a program says about its state, by uid."""
    with tempfile.TemporaryDirectory(prefix="penstock-probe-") as directory:
        area = FileArea(directory)
        return {
            operator.uid: _probed(stage, operator, area, parameters or {})
            for stage in graph.stages
            for operator in stage.operators
            if operator.kind is NodeKind.OPERATOR
        }


def _probed(
    stage: Stage, operator: ChainedOperator, area: FileArea, parameters: dict[str, str]
) -> Probed:
    try:
        logic = cast("OperatorLogic", operator.spec.build())
        context = _context(stage, operator, area, parameters)
        logic.setup(context, cast("Any", ChainOutput()))
    except Exception as error:
        return Probed(error=_why(error))
    try:
        logic.open()
        context.operator_state.restore((), 0, 1)
        logic.restore(None)
        return Probed(facts_of(context.keyed_state, context.operator_state))
    except Exception as error:
        return Probed(error=_why(error))
    finally:
        logic.close()


def _context(
    stage: Stage, operator: ChainedOperator, area: FileArea, parameters: dict[str, str]
) -> OperatorContext:
    clock = EpochClock()
    keyed = None
    if operator.spec.is_keyed:
        keyed = create_backend(HASHMAP).create_state(
            0, stage.max_parallelism - 1, stage.max_parallelism, area, clock, operator.uid
        )
        keyed.restore(())
    return OperatorContext(
        uid=operator.uid,
        name=operator.name,
        subtask=0,
        parallelism=stage.parallelism,
        max_parallelism=stage.max_parallelism,
        attempt=0,
        clock=clock,
        keyed_state=keyed,
        timers=None if keyed is None else OperatorTimers(keyed, clock),
        operator_state=OperatorState(operator.uid),
        metrics=MetricGroup(),
        parameters=parameters,
    )


def _why(error: Exception) -> str:
    return f"its function could not be opened here: {type(error).__name__}: {error}"[:400]
