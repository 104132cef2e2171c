"""Starts the job of a program in this process, and says what is in force.

The banner names each value with where it comes from; warnings follow. Both are pure functions of
`BannerFacts`, so that people's accidents (checkpointing never switched on; a program that overrides
the file) are tested as texts.
"""

from __future__ import annotations

import atexit
import logging
import os
import runpy
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.settings import RetentionPolicy, StorageKind
from penstock.connectors.source import Boundedness
from penstock.core.job import JobExecutionResult, JobStatus
from penstock.core.times import format_millis
from penstock.graph.job_graph import JobGraph, compile_graph
from penstock.graph.nodes import NodeKind, StreamGraph
from penstock.job.local_job import LocalJob
from penstock.job.record import in_one_line
from penstock.job.settings import IN_PROCESS, JobSettings, make_absolute, read_settings
from penstock.runtime.lowering import check_alignment

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.core.configuration import Configuration
    from penstock.job.local_job import Listener

    Launcher = Callable[[StreamGraph, Configuration, Listener | None], LocalJob]


NO_JOB: Final = "error: the program ended without a job; it must call env.execute()."
_PREFIX: Final = "execution.checkpointing."
_LABEL_WIDTH: Final = 21
_VALUE_WIDTH: Final = 44
_ON_CANCEL: Final = {
    RetentionPolicy.NO_EXTERNALIZED_CHECKPOINTS: "checkpoints are deleted",
    RetentionPolicy.DELETE_ON_CANCELLATION: "checkpoints are deleted; kept when the job fails",
    RetentionPolicy.RETAIN_ON_CANCELLATION: "checkpoints are kept, and are yours to delete",
}


@dataclass(frozen=True, slots=True)
class BannerFacts:
    """What the banner depends on."""

    job_id: str  # 32 hex digits.
    job_name: str  # For people.
    engine: str  # What runs the epochs, such as `Spark 4.1.0`.
    stateful: tuple[str, ...] = ()  # Names of stateful operators.
    without_uid: tuple[str, ...] = ()  # Those of them whose program names no uid.
    is_unbounded: bool = False  # Whether some source never ends.
    same_volume: bool = False  # Whether state and checkpoints lie on one volume.


def banner_lines(
    facts: BannerFacts, settings: JobSettings, configuration: Configuration
) -> list[str]:
    """Returns the lines, without warnings."""
    checkpoints = settings.checkpoints

    def line(label: str, value: str, *keys: str) -> str:
        sources = dict.fromkeys(
            str(setting) for key in keys if (setting := configuration.setting(key)) is not None
        )
        shown = ", ".join(sources) or "default"
        return f"  {label:<{_LABEL_WIDTH}}{value:<{_VALUE_WIDTH}}  {shown}"

    lines = [
        f"Penstock {version('penstock')} on {facts.engine}, Python {python_version()} · "
        f'job {facts.job_id} "{facts.job_name}"',
        line("state backend", settings.state.backend, "state.backend.type"),
    ]
    if checkpoints.interval_ms is None:
        lines.append(line("checkpointing", "off", _PREFIX + "interval"))
    else:
        timing = (
            f"every {format_millis(checkpoints.interval_ms)}, "
            f"timeout {format_millis(checkpoints.timeout_ms)}, "
            f"pause {format_millis(checkpoints.min_pause_ms)}, keep {checkpoints.num_retained}"
        )
        names = ("interval", "timeout", "min-pause", "num-retained")
        lines.append(line("checkpointing", timing, *(_PREFIX + name for name in names)))
    if checkpoints.storage is StorageKind.FILE_SYSTEM:
        place = f"filesystem {checkpoints.directory}"
        threshold = f"up to {checkpoints.inline_threshold_bytes:,} bytes stays inside _metadata"
        lines += [
            line("checkpoint storage", place, _PREFIX + "storage", _PREFIX + "dir"),
            line(
                "small state",
                f"{threshold}, so few or no data files is normal",
                _PREFIX + "data-inline-threshold",
            ),
        ]
    else:
        lines.append(line("checkpoint storage", "this process's memory", _PREFIX + "storage"))
    retention = _PREFIX + "externalized-checkpoint-retention"
    lines += [
        line("on cancel", _ON_CANCEL[checkpoints.retention], retention),
        line("restart strategy", settings.restart_strategy.describe(), "restart-strategy.type"),
    ]
    if settings.restore_path is not None:
        mode = f"{settings.restore_path} ({settings.claim_mode.value})"
        keys = ("execution.state-recovery.path", "execution.state-recovery.claim-mode")
        lines.append(line("starts from", mode, *keys))
    return lines


def banner_warnings(facts: BannerFacts, settings: JobSettings) -> list[str]:
    """Returns what the user should know before trusting the job."""
    checkpoints = settings.checkpoints
    found: list[str] = []
    if not checkpoints.is_enabled:
        if facts.stateful and facts.is_unbounded:
            found.append(
                f"{_counted(facts.stateful, 'stateful operator')} and checkpointing is off: no "
                "state survives this process, wherever the state directory is. Call "
                f"env.enable_checkpointing(60_000) or set {_PREFIX}interval."
            )
        return found
    if checkpoints.storage is StorageKind.JOB_MANAGER:
        found.append(
            "checkpoints are kept in this process's memory: they survive failures of the program, "
            f"not the end of the process. Set {_PREFIX}dir to durable storage."
        )
    elif facts.same_volume:
        found.append(
            f"the state directory and {_PREFIX}dir ({checkpoints.directory}) are on one volume: "
            "when it is lost, so are the checkpoints. Put checkpoints on durable shared storage."
        )
    if facts.without_uid:
        found.append(
            f"{_counted(facts.without_uid, 'stateful operator')} without uid. A changed program "
            'may not find their state; name them with .uid("...").'
        )
    return found


def facts_of(job_id: str, graph: JobGraph, settings: JobSettings, engine: str) -> BannerFacts:
    """Looks at a job."""
    stateful = [
        operator
        for operator in graph.operators
        if operator.kind is NodeKind.OPERATOR and operator.spec.is_keyed
    ]
    sources = [operator for operator in graph.operators if operator.kind is NodeKind.SOURCE]
    return BannerFacts(
        job_id,
        graph.job_name,
        engine,
        tuple(operator.name for operator in stateful),
        tuple(operator.name for operator in stateful if operator.uid_is_generated),
        any(each.spec.source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED for each in sources),
        _on_one_volume(settings.state.directory, settings.checkpoints.directory),
    )


def engine_name(master: str) -> str:
    """Returns what runs the epochs, for people."""
    return "this process" if master == IN_PROCESS else f"Spark {version('pyspark')} ({master})"


def _on_one_volume(state: str, checkpoints: str | None) -> bool:
    """Says so only of local paths; other storage lies elsewhere.

    Checkpoints below the directory for temporary files are those of a trial.
    """
    if checkpoints is None:
        return False
    path = checkpoints.removeprefix("file://")
    if "://" in path or Path(path).is_relative_to(tempfile.gettempdir()):
        return False
    return _device(Path(state)) == _device(Path(path))


def _device(path: Path) -> int | None:
    """Returns the device of a path, or of the nearest directory above that exists."""
    for candidate in (path, *path.absolute().parents):
        try:
            return os.stat(candidate).st_dev
        except OSError:
            continue
    return None


def _counted(names: Iterable[str], what: str) -> str:
    listed = list(names)
    shown = ", ".join(f"'{name}'" for name in listed[:5])
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return f"{len(listed)} {what}{'s' if len(listed) > 1 else ''} ({shown}{more})"


_log = logging.getLogger("penstock.job")
_launchers: list[Launcher] = []
_unattended: set[LocalJob] = set()
"""Jobs of `execute_async` that have not ended."""


def set_launcher(launcher: Launcher) -> None:
    """Has every job of this process started by `launcher`, which may call `start_job`.

    For processes that exist to run a user's program for another process: the driver of a job
    manager, the command line's `run -t local`, `info` and `check-restore`.
    """
    _launchers[:] = [launcher]


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """What is to be run."""

    purpose: str  # `run`, `plan`, `config` or `check-restore`.
    program: str | None = None  # Path of a script, or None with `module`.
    module: str | None = None
    arguments: tuple[str, ...] = ()  # The program's own.
    paths: tuple[str, ...] = ()  # Put before `sys.path`: the program's Python files.
    answer: str = os.devnull  # Path of the file for the answer.
    snapshot: str | None = None  # For `check-restore`: the snapshot.
    shows_traces: bool = False  # Whether failures of Penstock show their stack traces.
    is_quiet: bool = False  # For `run`: whether Flink's lines are left out.


def run_program(
    program: str | None, module: str | None, arguments: Sequence[str], paths: Sequence[str] = ()
) -> None:
    """Runs a script or a module as `python` would, its Python files on the path."""
    own = [] if program is None else [str(Path(program).resolve().parent)]
    sys.path[:0] = dict.fromkeys([*own, *paths])
    if program is not None:
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")
    else:
        assert module is not None
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def launcher() -> Launcher | None:
    """Returns what starts the jobs of this process; None for a program that runs for itself."""
    return _launchers[0] if _launchers else None


def start_job(  # noqa: PLR0913 - what a job manager adds
    graph: StreamGraph,
    configuration: Configuration,
    listener: Listener | None = None,
    *,
    job_id: str | None = None,
    leader_epoch: int = 1,
    before_start: Callable[[LocalJob], None] | None = None,
) -> LocalJob:
    """Starts a job in this process, without a page.

    Args:
        graph: The program.
        configuration: Its settings.
        listener: Called after each epoch.
        job_id: Chosen by a job manager; None for a new one.
        leader_epoch: Rises with every attempt that a job manager starts.
        before_start: Is shown the job before anything of it runs.
    """
    compiled = compile_graph(graph)
    check_alignment(compiled)
    # The composition root is where ids come from.
    job_id = job_id or uuid.uuid4().hex  # noqa: TID251
    make_absolute(configuration)
    settings = read_settings(configuration, job_id, leader_epoch)
    facts = facts_of(job_id, compiled, settings, engine_name(settings.master))
    _log.info("%s", "\n".join(banner_lines(facts, settings, configuration)))
    for warning in banner_warnings(facts, settings):
        _log.warning("%s", warning)
    job = LocalJob(graph, compiled, settings, job_id, listener)
    if before_start is not None:
        before_start(job)
    job.start()
    _log.info("Job has been submitted with JobID %s", job_id)
    return job


def tell_how_it_ends(job: LocalJob) -> None:
    """Has a job that the program may not wait for say so when it fails, or is cut off."""

    def ended(result: Future[JobExecutionResult]) -> None:
        _unattended.discard(job)
        if not threading.main_thread().is_alive():
            _cut_off(job)
        elif job.status is JobStatus.FAILED:
            error = result.exception()
            if error is not None:
                what = in_one_line(error).rstrip(".")
                hint = "client.get_job_execution_result().result() raises it in full."
                _log.error("Job %s failed: %s. %s", job.job_id, what, hint)

    if not _unattended:
        atexit.register(_cut_off_all)
    _unattended.add(job)
    job.result.add_done_callback(ended)


def _cut_off_all() -> None:
    for job in list(_unattended):
        _cut_off(job)
    _unattended.clear()


def _cut_off(job: LocalJob) -> None:
    _log.warning(
        "The program ended before job %s, which ends with it. Wait for the job: "
        "client.get_job_execution_result().result(), or env.execute().",
        job.job_id,
    )
