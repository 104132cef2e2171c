"""What a job's processes hand on: the history of its checkpoints and of its failures.

The driver writes it now and then; when it is killed, the next one takes it up. It is for people to
look at: nothing decides by it, and without it a job runs just the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.checkpoint.statistics import EarlierCheckpoints  # noqa: TC001 - read by msgspec
from penstock.jobmanager.job_directory import replace_file
from penstock.rest.views.facts import FailureRecord  # noqa: TC001 - read by msgspec

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.clock import Clock
    from penstock.launch.local_job import LocalJob

_PAUSE_MS: Final = 2_000
_log = logging.getLogger("penstock.job")


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file.

    Attributes:
        checkpoints: None when none was tried.
        failures: Newest first.
    """

    checkpoints: EarlierCheckpoints | None = None
    failures: tuple[FailureRecord, ...] = ()


class HistoryFile:
    """The file, as the driver of a job uses it.

    Args:
        path: Where it is.
        clock: Says when.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._written: Any = None
        self._written_ms: int | None = None

    def take_up(self, job: LocalJob) -> None:
        """Shows a job that has not started what went before."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=History)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("The history of the job in %s cannot be read: %s", self._path, error)
            return
        job.earlier_checkpoints = found.checkpoints
        job.failures = found.failures

    def refresh(self, job: LocalJob, *, is_last: bool) -> None:
        """Writes what has changed, unless that was done a moment ago."""
        statistics = job.statistics
        seen = (None if statistics is None else statistics.revision, job.failures)
        now_ms = self._clock.monotonic_ms()
        is_early = self._written_ms is not None and now_ms - self._written_ms < _PAUSE_MS
        if statistics is None or seen == self._written or (is_early and not is_last):
            return
        history = History(
            checkpoints=statistics.remembered(job.settings.leader_epoch), failures=job.failures
        )
        replace_file(self._path, msgspec.json.encode(history))
        self._written, self._written_ms = seen, now_ms
