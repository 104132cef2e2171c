"""What the job manager itself must know of a job's settings.

They come from its own configuration, from the submission, and, once the program has spoken, from
the program, which outranks both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.configuration import Configuration, Rank
from penstock.jobmanager.restart_strategies import RestartStrategy, restart_strategy

if TYPE_CHECKING:
    from penstock.jobmanager.job_records import StatusRecord, SubmissionRecord

_CHECKPOINT_INTERVAL: Final = "execution.checkpointing.interval"
_CANCELLATION_TIMEOUT: Final = "task.cancellation.timeout"


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of one job."""

    defaults: Configuration  # Configuration of the job manager.
    submission: SubmissionRecord | None  # What was submitted, or None.
    status: StatusRecord | None  # What the driver has said last; None before its first word.

    def restart_strategy(self) -> RestartStrategy:
        """Makes the strategy that follows the death of a process."""
        configuration = self._configuration()
        is_checkpointing = configuration.read(_CHECKPOINT_INTERVAL) is not None
        if self.status is not None:
            is_checkpointing = self.status.is_checkpointing
            for key, value in self.status.restart_settings.items():
                configuration.put(key, value, Rank.CODE, "program")
        return restart_strategy(configuration, checkpointing=is_checkpointing)

    def cancellation_timeout_ms(self) -> int:
        """Returns how long a cancellation may take before the process is killed."""
        if self.status is not None and self.status.cancellation_timeout_ms is not None:
            return self.status.cancellation_timeout_ms
        return int(self._configuration().get_duration_ms(_CANCELLATION_TIMEOUT))

    def _configuration(self) -> Configuration:
        configuration = Configuration(self.defaults)
        if self.submission is not None:
            for key, value in self.submission.configuration.items():
                configuration.put(key, value, Rank.COMMAND_LINE, "-D")
        return configuration
