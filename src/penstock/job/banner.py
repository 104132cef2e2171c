"""What a job says when it starts: what is in force, where each value comes from, and warnings.

A pure function of the facts, so that people's accidents (checkpointing never switched on; a program
that overrides the file) are tested as texts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.settings import RetentionPolicy, StorageKind
from penstock.connectors.source import Boundedness
from penstock.core.duration import format_millis
from penstock.graph.nodes import NodeKind
from penstock.job.settings import IN_PROCESS

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.graph.job_graph import JobGraph
    from penstock.job.settings import JobSettings

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
