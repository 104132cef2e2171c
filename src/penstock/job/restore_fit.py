"""Whether a snapshot fits a program: decided at once for all operators and states, before a record.

State is matched by uid, then by name. What the program has is known from its graph, and from a
probe of its functions (`restore.probe`); without a probe the types of states are not compared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.keygroups import key_group_range
from penstock.job.snapshot import key_schema
from penstock.state.evolution import (
    PICKLE,
    StateFacts,
    Verdict,
    evolve,
    incompatible_text,
    table_kind,
)
from penstock.state.schema import PLAIN

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Manifest, OperatorRecord, StateRecord
    from penstock.graph.job_graph import ChainedOperator, JobGraph, Stage

NEW: Final = "new"
KEPT: Final = "kept"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe learnt of one operator."""

    states: tuple[StateFacts, ...] = ()
    error: str = ""  # Why they are not known; "" if they are.


@dataclass(frozen=True, slots=True)
class StateFit:
    """What becomes of one state."""

    name: str  # The state.
    kind: str  # As in the snapshot, or in the program when it is new.
    # `as is`, `migrated`, `incompatible`, `new`, `kept` (in the snapshot, and the program
    # has not asked for it) or `unknown`.
    verdict: str
    before: str = ""  # Type in the snapshot.
    after: str = ""  # Type in the program.
    text: str = ""  # What changes, or why it cannot.


@dataclass(frozen=True, slots=True)
class OperatorFit:
    """What becomes of one operator."""

    uid: str  # The operator.
    name: str  # For people.
    verdict: str  # `matched`, `new`, `dropped`, or `unmatched`, which is a problem.
    parallelism: tuple[int | None, int | None]  # Before and after; None where it is not there.
    max_parallelism: tuple[int | None, int | None]  # Before and after.
    # The range of each subtask afterwards, both ends inclusive.
    key_groups: tuple[tuple[int, int], ...] = ()
    states: tuple[StateFit, ...] = ()


@dataclass(frozen=True, slots=True)
class Fit:
    """The whole."""

    problems: tuple[str, ...]  # Everything that prevents the start.
    # Those of the program, then those that only the snapshot has.
    operators: tuple[OperatorFit, ...]


def fit(
    graph: JobGraph,
    manifest: Manifest,
    probes: Mapping[str, Probed] | None = None,
    *,
    allow_non_restored: bool = False,
    allow_pickle: bool = True,
) -> Fit:
    """Decides what becomes of each part of a snapshot in a program.

    Args:
        graph: The program.
        manifest: The snapshot.
        probes: States of the program's operators by uid.
        allow_non_restored: State without an operator is dropped.
        allow_pickle: Pickled state may be read.
    """
    problems: list[str] = []
    records = {record.uid: record for record in manifest.operators}
    operators = []
    for stage in graph.stages:
        for operator in stage.operators:
            probed = (probes or {}).get(operator.uid, Probed(error="not looked at"))
            record = records.pop(operator.uid, None)
            states = tuple(_states(record, probed))
            verdict = NEW if record is None else "matched"
            operators.append(_fit_of(verdict, record, operator, stage, states))
            if record is None:
                continue
            place = f"operator '{record.name}' (uid '{record.uid}')"
            problems += _operator_problems(graph, stage, record, place)
            problems += [
                incompatible_text(each.name, record.uid, each.before, each.after, each.text)
                for each in states
                if each.verdict == Verdict.INCOMPATIBLE.value
            ]
            if not allow_pickle:
                problems += _pickled(record, place)
    for record in records.values():
        wrong = _unclaimed(record, manifest, allow_non_restored=allow_non_restored)
        problems += wrong
        operators.append(_fit_of("unmatched" if wrong else "dropped", record))
    return Fit(tuple(problems), tuple(operators))


def _fit_of(
    verdict: str,
    record: OperatorRecord | None,
    operator: ChainedOperator | None = None,
    stage: Stage | None = None,
    states: tuple[StateFit, ...] = (),
) -> OperatorFit:
    """Returns an operator of the snapshot, of a stage of the program, or of both."""
    known = record or operator
    assert known is not None
    return OperatorFit(
        known.uid,
        known.name,
        verdict,
        (
            None if record is None else record.parallelism,
            None if stage is None else stage.parallelism,
        ),
        (
            None if record is None else record.max_parallelism,
            None if stage is None else stage.max_parallelism,
        ),
        () if stage is None else _ranges(stage),
        states,
    )


def _ranges(stage: Stage) -> tuple[tuple[int, int], ...]:
    return tuple(
        key_group_range(index, stage.parallelism, stage.max_parallelism)
        for index in range(stage.parallelism)
    )


def _operator_problems(
    graph: JobGraph, stage: Stage, record: OperatorRecord, place: str
) -> Iterable[str]:
    if record.has_keys and stage.max_parallelism != record.max_parallelism:
        limit = record.max_parallelism
        too_many = stage.parallelism > limit
        lower = f" and a parallelism of at most {limit}, not {stage.parallelism}" * too_many
        yield (
            f"{place} has max parallelism {stage.max_parallelism} in the program and {limit} in "
            f"the snapshot, which a job cannot change. Set set_max_parallelism({limit}){lower}; or "
            "edit the snapshot: SavepointWriter.set_max_parallelism computes new key groups."
        )
    before, after = record.key_schema, key_schema(graph, stage)
    if before and after and before != after:
        yield (
            f"{place} has keys of type {after} in the program and {before} in the snapshot; the "
            "type of keys cannot change. Declare the old type in key_by(), or give the operator "
            "another uid."
        )


def _states(record: OperatorRecord | None, probed: Probed) -> Iterable[StateFit]:
    program = {facts.name: facts for facts in probed.states}
    for state in () if record is None else record.states:
        facts = program.pop(state.name, None)
        if facts is None:
            verdict = UNKNOWN if probed.error else KEPT
            yield StateFit(state.name, state.kind, verdict, _shown(state.schema), "", probed.error)
        else:
            yield _state(state, facts)
    for facts in program.values():
        if facts.is_described:
            yield StateFit(facts.name, facts.kind, NEW, after=facts.schema)


def _state(state: StateRecord, facts: StateFacts) -> StateFit:
    kind = facts.table_kind
    before, after = _shown(state.schema), _shown(facts.schema)
    if not facts.is_described:
        # What operators keep for themselves is their own affair.
        return StateFit(state.name, state.kind, Verdict.AS_IS.value, before, after)
    is_own = state.kind.startswith("operator-")
    if table_kind(state.kind) != kind or (is_own and state.kind != facts.kind):
        text = f"it is {state.kind} state in the snapshot and {facts.kind} state in the program"
        before, after = f"{state.kind} {before}".strip(), f"{facts.kind} {after}".strip()
        return StateFit(state.name, state.kind, Verdict.INCOMPATIBLE.value, before, after, text)
    evolution = evolve(kind, state.schema, facts.schema, _same if facts.migrates else None)
    return StateFit(state.name, state.kind, evolution.verdict.value, before, after, evolution.text)


def _same(value: object) -> object:
    return value


def _shown(schema: str) -> str:
    return "" if schema == PLAIN else schema


def _pickled(record: OperatorRecord, place: str) -> Iterable[str]:
    for state in record.states:
        if state.value_codec in {"", PICKLE}:
            yield (
                f"state {state.name!r} of {place} is pickled in the snapshot, and "
                "penstock.state.allow-pickle is false. Start once with it true and with the type "
                "of the state declared; the next savepoint holds data."
            )


def _unclaimed(
    record: OperatorRecord, manifest: Manifest, *, allow_non_restored: bool
) -> list[str]:
    has_state = record.has_keys or bool(record.states) or record.uid in manifest.sources
    owes = record.uid in manifest.owing
    if allow_non_restored or not (has_state or owes):
        return []
    has = "state" if has_state else "output that may not be visible yet"
    return [
        f"operator '{record.name}' (uid '{record.uid}') has {has} in the snapshot and "
        "is not in the program. Give its successor this uid, or drop the state with "
        "execution.state-recovery.ignore-unclaimed-state: true (-n)."
    ]


def undeclared(probes: Mapping[str, Probed]) -> list[str]:
    """Returns what is wrong with a program whose state must not be pickled."""
    return [
        f"state {facts.name!r} of operator {uid!r} has no declared type and would be pickled, and "
        "penstock.state.allow-pickle is false. Declare it in the descriptor, such as "
        f"ValueStateDescriptor({facts.name!r}, Types.LONG())."
        for uid, probed in probes.items()
        for facts in probed.states
        if facts.is_described and facts.codec == PICKLE
    ]
