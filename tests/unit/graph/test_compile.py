"""Stages, levels, uids and parallelism of small programs, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import ProgramError
from penstock.graph.job_graph import compile_graph, rescaled, spread
from penstock.graph.nodes import (
    Broadcast,
    Chaining,
    Forward,
    Input,
    KeyGroups,
    Node,
    NodeKind,
    Rebalance,
    StreamGraph,
)


def node(
    node_id: int, *inputs: Input | int, kind: NodeKind = NodeKind.OPERATOR, **rest: Any
) -> Node:
    edges = tuple(Input(given) if isinstance(given, int) else given for given in inputs)
    if not edges:
        kind = NodeKind.SOURCE
    return Node(node_id, kind, rest.pop("name", f"op {node_id}"), None, edges, **rest)


def graph(*nodes: Node, **rest: Any) -> StreamGraph:
    return StreamGraph("job", {each.node_id: each for each in nodes}, **rest)


def shape(compiled: Any) -> list[tuple[int, int, list[int]]]:
    return [
        (stage.level, stage.parallelism, [op.node_id for op in stage.operators])
        for stage in compiled.stages
    ]


def test_forward_operators_share_a_stage() -> None:
    compiled = compile_graph(graph(node(1), node(2, 1), node(3, 2)))
    assert shape(compiled) == [(0, 1, [1, 2, 3])]
    assert compiled.edges == ()


def test_key_by_cuts() -> None:
    keyed = Input(2, KeyGroups(len))
    compiled = compile_graph(graph(node(1), node(2, 1), node(3, keyed), node(4, 3), parallelism=2))
    assert shape(compiled) == [(0, 2, [1, 2]), (1, 2, [3, 4])]
    (edge,) = compiled.edges
    assert (edge.source_stage, edge.source_operator, edge.target_stage) == (0, 1, 1)


def test_other_parallelism_becomes_a_rebalance() -> None:
    compiled = compile_graph(graph(node(1), node(2, 1, parallelism=3)))
    assert shape(compiled) == [(0, 1, [1]), (1, 3, [2])]
    assert compiled.edges[0].partitioning == Rebalance()


def test_explicit_forward_refuses_other_parallelism() -> None:
    with pytest.raises(ProgramError, match=r"forward\(\) from 'op 1'.*rescale"):
        compile_graph(graph(node(1), node(2, Input(1, Forward(explicit=True)), parallelism=3)))


def test_a_diamond_has_three_levels_and_one_source() -> None:
    compiled = compile_graph(
        graph(
            node(1),
            node(2, Input(1, KeyGroups(len))),
            node(3, Input(2, Rebalance())),
            # Reads both the source's level and the level after it.
            node(4, Input(1, Rebalance()), Input(3, Broadcast(), input_index=1)),
        )
    )
    assert shape(compiled) == [(0, 1, [1]), (1, 1, [2]), (2, 1, [3]), (3, 1, [4])]
    assert [(edge.source_stage, edge.target_stage) for edge in compiled.edges] == [
        (0, 1),
        (1, 2),
        (0, 3),
        (2, 3),
    ]


def test_stages_are_ordered_by_level_not_by_program() -> None:
    compiled = compile_graph(
        graph(node(1), node(2, Input(1, Rebalance())), node(3), node(4, Input(3, Rebalance()), 2))
    )
    assert shape(compiled) == [(0, 1, [1]), (0, 1, [3]), (1, 1, [2]), (2, 1, [4])]
    assert [(edge.source_stage, edge.target_stage) for edge in compiled.edges] == [
        (0, 2),
        (1, 3),
        (2, 3),
    ]


def test_several_consumers_chain_as_a_tree() -> None:
    compiled = compile_graph(graph(node(1), node(2, 1), node(3, 1), node(4, 3)))
    assert shape(compiled) == [(0, 1, [1, 2, 3, 4])]
    assert [op.producer for op in compiled.stages[0].operators] == [None, 0, 0, 2]


@pytest.mark.parametrize("where", ["job", "head", "upstream"])
def test_chaining_can_be_forbidden(where: str) -> None:
    first = node(1, chaining=Chaining.NEVER if where == "upstream" else Chaining.ALWAYS)
    second = node(2, 1, chaining=Chaining.HEAD if where == "head" else Chaining.ALWAYS)
    compiled = compile_graph(graph(first, second, chaining_enabled=where != "job"))
    assert shape(compiled) == [(0, 1, [1]), (1, 1, [2])]
    assert compiled.edges[0].partitioning == Forward()


def test_non_parallel_operators_stay_at_one() -> None:
    compiled = compile_graph(graph(node(1), node(2, 1, is_parallel=False), parallelism=4))
    assert [stage.parallelism for stage in compiled.stages] == [4, 1]


def test_uids_are_generated_from_name_and_position() -> None:
    compiled = compile_graph(graph(node(1, name="Source: My File"), node(2, 1, uid="mine")))
    operators = compiled.stages[0].operators
    assert [(op.uid, op.uid_is_generated) for op in operators] == [
        ("source-my-file-1", True),
        ("mine", False),
    ]


def test_a_uid_hash_stands_for_a_uid() -> None:
    given = "0f" * 16
    once = compile_graph(graph(node(1), node(2, 1, uid_hash=given)))
    again = compile_graph(graph(node(1), node(2, 1, name="new"), node(3, 2, uid_hash=given)))
    for compiled, place in ((once, 1), (again, 2)):
        operator = [each for stage in compiled.stages for each in stage.operators][place]
        assert (operator.uid, operator.uid_is_generated) == (given, False)


def test_duplicate_uids_are_named() -> None:
    with pytest.raises(ProgramError, match=r"uid 'x' is used by 2 operators \(a, b\)"):
        compile_graph(graph(node(1), node(2, 1, uid="x", name="a"), node(3, 1, uid="x", name="b")))


def test_missing_uid_is_an_error_when_none_are_generated() -> None:
    with pytest.raises(ProgramError, match=r"'op 1' has no uid"):
        compile_graph(graph(node(1), auto_generate_uids=False))


def test_parallelism_over_max_parallelism_is_refused() -> None:
    with pytest.raises(ProgramError, match="more than its max parallelism 2"):
        compile_graph(graph(node(1, parallelism=3, max_parallelism=2)))


def test_an_empty_program_says_what_to_add() -> None:
    with pytest.raises(ProgramError, match="no operators"):
        compile_graph(graph())


# -- other parallelisms ------------------------------------------------------------------------


def test_a_rescaled_program_keeps_its_key_groups() -> None:
    program = graph(
        node(1, parallelism=1), node(2, 1), node(3, Input(2, KeyGroups(len))), parallelism=2
    )
    now = compile_graph(program)
    wanted = spread(program, 200)
    assert wanted == {"op-2-2": 200, "op-3-3": 200}
    with pytest.raises(ProgramError, match="is 200, more than its max parallelism 128"):
        rescaled(program, now, wanted)
    found = rescaled(program, now, spread(program, 100))
    assert shape(found) == [(0, 1, [1]), (1, 100, [2]), (2, 100, [3])]
    # Derived from a parallelism of 100, it would be 256.
    assert {stage.max_parallelism for stage in found.stages} == {128}


def test_what_is_chained_may_be_parted_by_a_rescale() -> None:
    program = graph(node(1), node(2, 1, parallelism=1))
    now = compile_graph(program)
    assert shape(now) == [(0, 1, [1, 2])]
    assert shape(rescaled(program, now, spread(program, 2))) == [(0, 2, [1]), (1, 1, [2])]


def test_what_must_stay_one_is_not_rescaled() -> None:
    program = graph(node(1, is_parallel=False), node(2, 1))
    assert spread(program, 3) == {"op-2-2": 3}
    with pytest.raises(ProgramError, match="'op 1' has parallelism 1 always; 3 was asked for"):
        rescaled(program, compile_graph(program), {"op-1-1": 3})
    with pytest.raises(ProgramError, match="set_parallelism"):
        spread(graph(node(1, parallelism=2)), 3)
