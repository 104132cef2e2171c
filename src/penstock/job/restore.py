"""From a snapshot to a state that a program goes on from, and the check that both fit together.

1. `checkpoint.start_point` has found the snapshot.
2. The program's functions are opened once, to learn which state they want (`probe`).
3. `restore_fit` decides about everything at once; all problems are raised in one list, before the
   first record. `check_restore` is the same as a dry run.
4. `restored_state` makes the state of the job of it.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, cast

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.manifest import Manifest, OperatorRecord, local_handle, local_keyed_state
from penstock.checkpoint.snapshot_load import LoadedSnapshot, load_snapshot
from penstock.connectors.source import Split
from penstock.core.errors import ConfigurationError, PenstockError, ProgramError
from penstock.core.keygroups import key_group_range
from penstock.core.times import EpochClock
from penstock.files.area import FileArea
from penstock.files.urls import canonical_url, configured_storages
from penstock.graph.job_graph import ChainedOperator, JobGraph, Stage, compile_graph
from penstock.graph.nodes import NodeKind, StreamGraph
from penstock.job.restore_fit import Fit, OperatorFit, Probed, fit, undeclared
from penstock.operators.logic import MetricGroup, OperatorContext, OperatorLogic, OperatorTimers
from penstock.runtime.chain import ChainOutput
from penstock.runtime.job_state import JobState, SourceProgress
from penstock.runtime.records import OperatorVersion, SubtaskVersion
from penstock.state.backend import create_backend
from penstock.state.evolution import PICKLE
from penstock.state.heap import HASHMAP
from penstock.state.operator_snapshot import facts_of
from penstock.state.operator_state import OperatorState
from penstock.state.plain_serializer import Pickles

if TYPE_CHECKING:
    from penstock.checkpoint.start_point import StartPoint
    from penstock.core.configuration import Configuration
    from penstock.job.settings import JobSettings

_log = logging.getLogger("penstock.job")
_PATH = "execution.state-recovery.path"


def check_fit(graph: JobGraph, settings: JobSettings, start: StartPoint | None) -> None:
    """Checks that a job may start so; from None with an empty state.

    Functions are opened here only where that can find something: to restore, or where pickles are
    forbidden.

    Raises:
        CheckpointError: The snapshot does not fit; lists all reasons.
        ProgramError: State would be pickled although that is not allowed; lists all of it.
    """
    manifest = None if start is None else start.loaded.manifest
    allow_pickle = settings.state.pickles is Pickles.ALLOW
    if manifest is None and allow_pickle:
        return
    found, _ = _judged(
        graph,
        manifest,
        dict(settings.parameters),
        allow_pickle=allow_pickle,
        allow_non_restored=settings.ignore_unclaimed_state,
    )
    if found.problems:
        listed = "".join(f"\n  - {problem}" for problem in found.problems)
        if manifest is None:
            raise ProgramError(f"the program cannot start:{listed}")
        raise CheckpointError(
            f"the program cannot start from snapshot {manifest.checkpoint_id} of job "
            f"{manifest.job_id}:{listed}"
        )
    if start is not None and start.claim_mode is not None:
        _warn_of_pickles(settings, start.loaded)


def _judged(
    graph: JobGraph,
    manifest: Manifest | None,
    parameters: dict[str, str],
    *,
    allow_pickle: bool,
    allow_non_restored: bool,
) -> tuple[Fit, Mapping[str, Probed]]:
    """Decides whether a program may start from a snapshot, or from nothing."""
    probes = probe(graph, parameters)
    found = Fit((), ())
    if manifest is not None:
        found = fit(
            graph,
            manifest,
            probes,
            allow_non_restored=allow_non_restored,
            allow_pickle=allow_pickle,
        )
    undeclared_states = [] if allow_pickle else undeclared(probes)
    return Fit((*undeclared_states, *found.problems), found.operators), probes


def _warn_of_pickles(settings: JobSettings, loaded: LoadedSnapshot) -> None:
    """Reading a pickle runs code, so one from an unusual place deserves a word."""
    own = (settings.checkpoints.directory, settings.checkpoints.savepoint_directory)
    roots = [canonical_url(root) for root in own if root]
    if any(loaded.directory.startswith(f"{root}/") for root in roots):
        return
    pickled = [
        f"'{state.name}' of '{record.uid}'"
        for record in loaded.manifest.operators
        for state in record.states
        if state.value_codec in {"", PICKLE}
    ]
    if pickled:
        _log.warning(
            "Snapshot %s lies outside the directories of this job and holds pickled state (%s), "
            "which may run any code when it is read. Start only from snapshots that you trust, or "
            "set penstock.state.allow-pickle: false.",
            loaded.directory,
            ", ".join(pickled[:5]),
        )


def check_restore(
    graph: StreamGraph, configuration: Configuration, path: str | None = None
) -> dict[str, Any]:
    """Returns what would become of a snapshot if a program started from it; starts nothing.

    To learn which state a function has, its `open()` is called once in this process.

    Args:
        graph: The program.
        configuration: Its settings.
        path: The snapshot; by default `execution.state-recovery.path`.

    Returns:
        `path`, `fits`, `problems` (texts: everything that is wrong, at once), `warnings`, and
        `operators`: a list of dicts with `uid`, `name`, `verdict` (`matched`, `new`, `dropped`,
        `unmatched`), `parallelism` and `max_parallelism` (before and after, None where there is
        none), `key_groups` (the ranges of the subtasks afterwards), and `states`: a list of dicts
        with `name`, `kind`, `verdict` (`as is`, `migrated`, `incompatible`, `new`, `kept`,
        `unknown`), `before` and `after` (types), and `text`.
    """
    place = path or configuration.read(_PATH)
    if not place:
        raise ConfigurationError(
            f"there is nothing to check: pass the path of a snapshot, or set {_PATH}."
        )
    problems: list[str] = []
    compiled = manifest = None
    try:
        compiled = compile_graph(graph)
    except ProgramError as error:
        problems.append(str(error))
    try:
        manifest = load_snapshot(configured_storages(configuration), place).manifest
    except PenstockError as error:
        problems.append(str(error))
    operators: tuple[OperatorFit, ...] = ()
    warnings: list[str] = []
    if compiled is not None:
        ignore = configuration.read("execution.state-recovery.ignore-unclaimed-state")
        judged, probes = _judged(
            compiled,
            manifest,
            configuration.get_map("pipeline.global-job-parameters"),
            allow_pickle=bool(configuration.get_boolean("penstock.state.allow-pickle")),
            allow_non_restored=bool(ignore),
        )
        problems += judged.problems
        operators = judged.operators
        warnings = _warnings(compiled, probes)
    return {
        "path": place,
        "fits": not problems,
        "problems": problems,
        "warnings": warnings,
        "operators": [_plain(asdict(operator)) for operator in operators],
    }


def _warnings(graph: JobGraph, probes: Mapping[str, Probed]) -> list[str]:
    """Returns what could not be learnt, and which uids a change of the program would change."""
    unknown = [f"operator {uid!r}: {each.error}" for uid, each in probes.items() if each.error]
    return unknown + [
        f"operator '{operator.name}' has no uid of its own; '{operator.uid}' was made from the "
        "shape of the program, and a changed program may not find its state."
        for operator in graph.operators
        if operator.uid_is_generated
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


# -- which state a program has --------------------------------------------------------------------


def probe(graph: JobGraph, parameters: dict[str, str] | None = None) -> dict[str, Probed]:
    """Returns what each operator of a program says about its state, by uid.

    Functions say in `open()` and `initialize_state()` which state they want, as in Flink: there is
    no other way to know before the first record. What they obtain is empty and thrown away. A
    function that cannot be opened here, or asks for state only when records come, is checked when
    it runs.
    """
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


# -- the state of the job -------------------------------------------------------------------------


def with_places(state: JobState, loaded: LoadedSnapshot) -> JobState:
    """Returns a restored state whose workers fetch the files themselves."""
    places = {
        handle.name: loaded.url_of(handle)
        for handle in loaded.manifest.handles
        if handle.path is not None
    }
    versions = {
        key: replace(
            version,
            places={each.name: places[each.name] for each in version.files if each.inline is None},
        )
        for key, version in state.versions.items()
    }
    return replace(state, versions=versions)


def restored_state(graph: JobGraph, manifest: Manifest) -> JobState:
    """Returns the state from which a program goes on from a snapshot that fits it."""
    records = {record.uid: record for record in manifest.operators}
    versions = {
        (stage.stage_id, index): _subtask(stage, index, records, manifest)
        for stage in graph.stages
        for index in range(stage.parallelism)
    }
    sources: dict[str, SourceProgress] = {}
    for stage in graph.stages:
        if stage.is_source:
            uid = stage.operators[0].uid
            found = manifest.sources.get(uid)
            sources[uid] = SourceProgress() if found is None else _progress(found, stage)
    is_firing = manifest.job.get("is_firing", False)
    return JobState(manifest.epoch, versions, sources, is_firing=is_firing)


def _subtask(
    stage: Stage, index: int, records: dict[str, OperatorRecord], manifest: Manifest
) -> SubtaskVersion:
    operators: dict[str, OperatorVersion] = {}
    first, last = key_group_range(index, stage.parallelism, stage.max_parallelism)
    for operator in stage.operators:
        record = records.get(operator.uid)
        if record is None:
            continue
        keyed = [subtask.keyed for subtask in record.subtasks if subtask.keyed is not None]
        operators[operator.uid] = OperatorVersion(
            keyed=tuple(
                local_keyed_state(each)
                for each in keyed
                if each.first_key_group <= last and each.last_key_group >= first
            ),
            logic=tuple(map(local_handle, record.logic)),
            lists=tuple(tuple(map(local_handle, files)) for files in record.lists),
        )
    # The snapshot is part of the name: a worker that holds another version must not keep it.
    place = f"{stage.stage_id}-{index}-of-{stage.parallelism}"
    name = f"restored-{manifest.job_id}-{manifest.checkpoint_id}-{place}"
    return SubtaskVersion(name, operators, is_restored=True)


def _progress(data: dict[str, Any], stage: Stage) -> SourceProgress:
    """Subtasks go on with their splits, at their positions; other numbers of them deal again.

    What a subtask knows of event time is of its own splits.
    """
    unfinished = [(_split(split), position) for split, position in data["assigned"]]
    positions = {split.split_id: position for split, position in unfinished}
    left = [*(split for split, _ in unfinished), *map(_split, data["waiting"])]
    shares = data.get("shares", ())
    assigned: dict[int, tuple[Split, ...]] = {}
    if len(shares) == stage.parallelism:
        for index, share in enumerate(shares):
            assigned[index], left = tuple(left[:share]), left[share:]
    return SourceProgress(
        state=data["state"],
        complete=data["complete"],
        waiting=tuple(left),
        assigned=assigned,
        positions=positions if assigned else {},
        resumed=positions,
        finished=data["finished"],
        next_owner=sum(map(len, assigned.values())),
    )


def _split(data: list[Any]) -> Split:
    return Split(data[0], data[1], data[2], concurrent=data[3])
