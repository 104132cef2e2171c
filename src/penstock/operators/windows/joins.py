"""Specs of joins and co-groups in windows; their operator has two keyed inputs.

Results carry the window's last instant. Pairs are formed within a window and key only; a sliding
window that overlaps another may hold the same pair again. A record without partner gives nothing in
a join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.operators.windows.pairs import (
    CoGroupPairs,
    FlatJoinPairs,
    JoinPairs,
    PairContents,
    PairFunction,
)
from penstock.operators.windows.spec import WindowSpec

if TYPE_CHECKING:
    from penstock.operators.windows.assigners import WindowAssigner


def join_spec(assigner: WindowAssigner, function: Any, **settings: Any) -> WindowSpec:
    """Returns the spec of `join(...).where(...).equal_to(...).window(...).apply(function)`.

    Args:
        assigner: The windows.
        function: A `JoinFunction` or a callable of two records: one result per pair.
        **settings: `trigger`, `evictor`, `allowed_lateness_ms`, `late_tag` of `WindowSpec`.
    """
    return _pair_spec(assigner, JoinPairs(function), settings)


def flat_join_spec(assigner: WindowAssigner, function: Any, **settings: Any) -> WindowSpec:
    """Returns the same for a `FlatJoinFunction`: any number of results per pair."""
    return _pair_spec(assigner, FlatJoinPairs(function), settings)


def co_group_spec(assigner: WindowAssigner, function: Any, **settings: Any) -> WindowSpec:
    """Returns the spec of a `CoGroupFunction` or a callable of two lists of records."""
    return _pair_spec(assigner, CoGroupPairs(function), settings)


def _pair_spec(
    assigner: WindowAssigner, function: PairFunction, settings: dict[str, Any]
) -> WindowSpec:
    return WindowSpec(assigner, contents=PairContents(), function=function, **settings)
