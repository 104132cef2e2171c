"""Checks a program against a snapshot: as a dry run, and before every start."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.paths import canonical_url
from penstock.checkpoint.snapshot_load import load_snapshot
from penstock.checkpoint.storage.urls import configured_storages
from penstock.core.errors import ConfigurationError, PenstockError, ProgramError
from penstock.graph.compile import compile_graph
from penstock.launch.restore_fit import Fit, Probed, fit, undeclared
from penstock.launch.start_point import find_start
from penstock.launch.state_probe import probe
from penstock.state.facts import PICKLE
from penstock.state.pickles import Pickles

if TYPE_CHECKING:
    from penstock.checkpoint.files import CheckpointFiles
    from penstock.checkpoint.manifest import Manifest
    from penstock.checkpoint.snapshot_load import LoadedSnapshot
    from penstock.core.configuration import Configuration
    from penstock.graph.job_graph import JobGraph
    from penstock.graph.nodes import StreamGraph
    from penstock.job.settings import JobSettings
    from penstock.launch.start_point import StartPoint

_log = logging.getLogger("penstock.job")
_PATH = "execution.state-recovery.path"


def fitting_start(
    graph: JobGraph, settings: JobSettings, effects: CheckpointFiles
) -> StartPoint | None:
    """Returns what a job starts from, found to fit it; None for an empty state.

    Raises:
        CheckpointError: There is no such snapshot, or it does not fit; lists all reasons.
        ProgramError: State would be pickled although that is not allowed; lists all of it.
    """
    start = find_start(settings, effects)
    check_start(graph, settings, None if start is None else start.loaded.manifest)
    if start is not None and start.claim_mode is not None:
        _warn_of_pickles(settings, start.loaded)
    return start


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


def check_start(graph: JobGraph, settings: JobSettings, manifest: Manifest | None) -> None:
    """Checks a program before its first record.

    Functions are opened here only where that can find something: to restore, or where pickles are
    forbidden.

    Raises:
        CheckpointError: The snapshot does not fit; lists all reasons.
        ProgramError: State would be pickled although that is not allowed; lists all of it.
    """
    allow_pickle = settings.state.pickles is Pickles.ALLOW
    if manifest is None and allow_pickle:
        return
    probes = probe(graph, dict(settings.parameters))
    problems = [] if allow_pickle else undeclared(probes)
    if manifest is None:
        if problems:
            raise ProgramError(f"the program cannot start:{_listed(problems)}")
        return
    found = fit(
        graph,
        manifest,
        probes,
        allow_non_restored=settings.ignore_unclaimed_state,
        allow_pickle=allow_pickle,
    )
    raise_problems([*problems, *found.problems], manifest)


def raise_problems(problems: list[str], manifest: Manifest) -> None:
    """Raises an error that lists problems, if there are any."""
    if problems:
        raise CheckpointError(
            f"the program cannot start from snapshot {manifest.checkpoint_id} of job "
            f"{manifest.job_id}:{_listed(problems)}"
        )


def _listed(problems: list[str]) -> str:
    return "".join(f"\n  - {problem}" for problem in problems)


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
    found = Fit((), ())
    warnings: list[str] = []
    if compiled is not None:
        allow_pickle = bool(configuration.get_boolean("penstock.state.allow-pickle"))
        probes = probe(compiled, configuration.get_map("pipeline.global-job-parameters"))
        problems += [] if allow_pickle else undeclared(probes)
        warnings = _warnings(compiled, probes)
        if manifest is not None:
            ignore = configuration.read("execution.state-recovery.ignore-unclaimed-state")
            found = fit(
                compiled,
                manifest,
                probes,
                allow_non_restored=bool(ignore),
                allow_pickle=allow_pickle,
            )
    problems += found.problems
    return {
        "path": place,
        "fits": not problems,
        "problems": problems,
        "warnings": warnings,
        "operators": [_plain(asdict(operator)) for operator in found.operators],
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
