"""One job on this job manager: its directory, its supervisor, its process.

`look` is called several times a second by the dispatcher's thread: it sees what the process and the
directory say, asks the supervisor what follows, does it, and remembers it in the directory.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.configuration import Configuration, Rank
from penstock.core.job import JobStatus
from penstock.jobmanager import processes, supervision
from penstock.jobmanager.job_directory import JobDirectory, bound_file
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    JobRecord,
    Operation,
    ProcessRecord,
    RefusedError,
    counted,
    restarted,
)
from penstock.jobmanager.processes import Child, Launcher, exit_text
from penstock.jobmanager.restart_strategies import RestartStrategy, restart_strategy

if TYPE_CHECKING:
    from penstock.core.times import Clock

_log = logging.getLogger("penstock.jobmanager")
_UNSEEN: Final = "The job's process ended while no job manager looked after it."


class SupervisedJob:
    """A job that this job manager runs, or remembers.

    Args:
        directory: The job's directory.
        record: What is known of it.
        launcher: Starts its processes.
        clock: Says when.
        attempt_epoch: Returns the epoch in which an attempt writes.
        configuration: Of the job manager: defaults of the job's.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of one job
        self,
        directory: JobDirectory,
        record: JobRecord,
        *,
        launcher: Launcher,
        clock: Clock,
        attempt_epoch: Callable[[int], int],
        configuration: Configuration,
    ) -> None:
        self.directory = directory
        self.record = record
        self._launcher = launcher
        self._clock = clock
        self._attempt_epoch = attempt_epoch
        self._configuration = configuration
        self._child: Child | None = None
        self._wall_ahead_ms = clock.wall_ms() - clock.monotonic_ms()
        # Of a job that has ended before us, for lists.
        self._status: JobRecord | None = directory.status.read()
        # Its process may be dead when we first look.
        self._death: str | None = _UNSEEN if record.attempt else None
        self._kill_reason: str | None = None
        self._is_settled = False
        self._supervisor = self._supervised(record.status)
        self._supervisor.has_ended = record.status.is_globally_terminal_state()

    def recover(self) -> None:
        """The job was there before this job manager, or this leadership."""
        if not self.has_ended:
            self._supervisor = self._supervised(JobStatus.RECONCILING, is_recovered=True)

    def _supervised(
        self, status: JobStatus, *, is_recovered: bool = False
    ) -> supervision.JobSupervisor:
        return supervision.JobSupervisor(
            supervision.JobLifeCycle(self._clock.wall_ms(), status),
            attempt=self.record.attempt,
            strategy=self._strategy,
            cancellation_timeout_ms=self._cancellation_timeout_ms,
            cancel_requested=self.record.cancel_requested_ms is not None,
            is_recovered=is_recovered,
        )

    # -- what is known --------------------------------------------------------------------------

    @property
    def job_id(self) -> str:
        return self.record.job_id

    @property
    def status(self) -> JobStatus:
        return self._supervisor.life.status

    @property
    def has_ended(self) -> bool:
        return self._supervisor.has_ended

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to look after: it has ended, and its process too."""
        if not self._is_settled:
            self._is_settled = self.has_ended and not self._is_alive()
        return self._is_settled

    @property
    def process(self) -> ProcessRecord | None:
        """The process that lives, if one does."""
        found = self.directory.process.read() if not self.has_ended else None
        return found if found is not None and self._is_alive() else None

    def known(self) -> JobRecord:
        """Returns all that is known of the job, by the job manager and by its driver."""
        said = self._status
        return msgspec.structs.replace(
            counted(self.record, said),
            status=self.status,
            tasks={} if said is None else said.tasks,
            last_checkpoint_ms=None if said is None else said.last_checkpoint_ms,
        )

    # -- commands -------------------------------------------------------------------------------

    def trigger(self, command: Command, trigger_id: str) -> None:
        """Hands a command to the driver; the same trigger id again changes nothing.

        Raises:
            RefusedError: The job cannot obey now.
        """
        if self.directory.command(trigger_id).read() is not None:
            return
        if self.has_ended:
            raise RefusedError(f"job {self.job_id} has ended: it is {self.status.name}.")
        if command.kind is CommandKind.CANCEL:
            self._note_cancellation()
        elif self.status is not JobStatus.RUNNING:
            raise RefusedError(
                f"job {self.job_id} is {self.status.name}; a {command.kind.value} needs a RUNNING "
                "job. Ask again when it runs."
            )
        self.directory.make_room()
        asked = msgspec.structs.replace(command, attempt=self._supervisor.attempt)
        self.directory.command(trigger_id).write(asked)

    def operation(self, trigger_id: str) -> Operation | None:
        return self.directory.operation(trigger_id, self.status)

    def _note_cancellation(self) -> None:
        """Written first and durably: a later job manager must not start the job again."""
        if self.record.cancel_requested_ms is None:
            now_ms = self._clock.wall_ms()
            self._save(msgspec.structs.replace(self.record, cancel_requested_ms=now_ms))
        self._supervisor.cancel()

    # -- called by the dispatcher's thread ------------------------------------------------------

    def look(self, random: float) -> supervision.Ending | None:
        """Does what is due; returns how the job ended, in the look that sees it end."""
        seen = self._observe()
        now_ms = self._clock.wall_ms()
        restarts = self._supervisor.process_restarts
        instructions = self._supervisor.observe(seen, self._clock.monotonic_ms(), now_ms, random)
        ending = None
        for instruction in instructions:
            ending = self._obey(instruction) or ending
        self._note(now_ms, ending, has_died=self._supervisor.process_restarts > restarts)
        return ending

    def clean_up_begins(self) -> int:
        """Returns the epoch in which to remove what its processes left: each try has its own."""
        tries = self.record.leftover
        self._save(msgspec.structs.replace(self.record, leftover=tries + 1))
        return self._attempt_epoch(self.record.attempt + tries)

    def clean_up_ends(self) -> None:
        self._save(msgspec.structs.replace(self.record, leftover=0))

    def kill(self) -> None:
        """Kills the process, if one lives: the leadership of this job manager is over."""
        if self._child is not None and self._child.poll() is None:
            # It may not have written its number yet.
            processes.kill_group(self._child.pid)
            return
        found = self.directory.process.read()
        if found is not None:
            processes.kill(found)

    def _observe(self) -> supervision.Observation:
        attempt = self._supervisor.attempt
        is_alive = self._is_alive()
        # After the question whether it lives: the last thing that it does is to say how it ended.
        end = self.directory.end.read()
        status = self.directory.status.read()
        if status is not None and status.attempt == attempt:
            self._status = status
        ending = None
        if end is not None and end.attempt == attempt and attempt > 0:
            ending = supervision.Ending(end.status, end.error, end.error_type, end.ended_ms)
        found = supervision.Observation(is_alive, ending=ending, died_how=self._died_how())
        if status is None or status.attempt != attempt:
            return found
        return dataclasses.replace(
            found, reported=status.status, reported_ms=status.changed_ms, restarts=status.restarts
        )

    def _is_alive(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        found = self.directory.process.read()
        return found is not None and processes.is_alive(found)

    def _died_how(self) -> str:
        status = None if self._child is None else self._child.poll()
        if self._kill_reason is not None:
            return f"because it was killed: {self._kill_reason}"
        return "" if status is None else exit_text(status)

    def _obey(self, instruction: supervision.Instruction) -> supervision.Ending | None:
        match instruction:
            case supervision.StartDriver(attempt):
                self._start(attempt)
            case supervision.KillDriver(reason):
                _log.warning("The process of job %s is killed: %s.", self.job_id, reason)
                self._kill_reason = reason
                self.kill()
            case supervision.EndJob(ending):
                self._log_end(ending)
                return ending
        return None

    def _start(self, attempt: int) -> None:
        # The group of the last one may have members left, and an adopted one may live.
        self.kill()
        self._kill_reason = None
        record = counted(self.record, self._status)
        self._status = None
        death, self._death = self._death, None
        process = ProcessRecord(
            attempt=attempt,
            leader_epoch=self._attempt_epoch(attempt),
            previous_death=death,
            restarts=record.restarts,
            failures=record.failures,
        )
        # Known before the process is: a successor of ours must not give the number again.
        self._save(msgspec.structs.replace(record, attempt=attempt))
        self.directory.process.write(process)
        submission = self.directory.submission.read()
        configuration = {} if submission is None else submission.configuration
        self._child = self._launcher.start(
            self.directory, attempt, configuration.get("python.client.executable")
        )
        _log.info("Job %s: attempt %d starts.", self.job_id, attempt)

    def _note(self, now_ms: int, ending: supervision.Ending | None, *, has_died: bool) -> None:
        record, life, asked = self.record, self._supervisor.life, self._supervisor.strategy
        if has_died and asked is not None:
            failures = asked.memory.moved(self._wall_ahead_ms)
            record = restarted(record, self._status, failures)
        if has_died:
            self._death = f"The job's process ended {self._died_how() or 'without a word'}."
            _log.warning("Job %s restarts: %s", self.job_id, self._death)
        changed = record.status is not life.status
        known = record.timestamps
        entered = {status: max(at, known.get(status, 0)) for status, at in life.entered.items()}
        said = self._status
        noted = msgspec.structs.replace(
            record,
            name=record.name if said is None else said.name or record.name,
            status=life.status,
            changed_ms=entered[life.status] if changed else record.changed_ms,
            timestamps=known | entered,
        )
        if ending is not None:
            ended_ms = ending.ended_ms or now_ms
            noted = msgspec.structs.replace(
                noted,
                ended_ms=ended_ms,
                leftover=int(ending.is_left_to_us and record.attempt > 0),
                error=ending.error,
                error_type=ending.error_type,
            )
        if noted != self.record:
            self._save(noted)
        bound_file(self.directory.log)
        bound_file(self.directory.output)

    def _save(self, record: JobRecord) -> None:
        self.directory.job.write(record)
        self.record = record

    def _log_end(self, ending: supervision.Ending) -> None:
        if ending.status is JobStatus.FAILED:
            _log.error("Job %s has failed: %s", self.job_id, ending.error)
        else:
            _log.info("Job %s is %s.", self.job_id, self.status.name)

    # -- what the job manager itself must know of the job's settings ------------------------------

    # They come from its own configuration, from the submission, and, once the program has spoken,
    # from the program, which outranks both.

    def _settings(self) -> Configuration:
        configuration = Configuration(self._configuration)
        submission = self.directory.submission.read()
        if submission is not None:
            for key, value in submission.configuration.items():
                configuration.put(key, value, Rank.COMMAND_LINE, "-D")
        # A process that died early has not said what the program sets; one before it may have.
        for key, value in (self.directory.settings.read() or {}).items():
            configuration.put(key, value, Rank.CODE, "program")
        return configuration

    def _strategy(self) -> RestartStrategy:
        """Makes the strategy that follows the death of a process."""
        configuration = self._settings()
        is_checkpointing = configuration.read("execution.checkpointing.interval") is not None
        strategy = restart_strategy(configuration, checkpointing=is_checkpointing)
        strategy.memory = counted(self.record, self._status).failures.moved(-self._wall_ahead_ms)
        return strategy

    def _cancellation_timeout_ms(self) -> int:
        """Returns how long a cancellation may take before the process is killed."""
        return int(self._settings().get_duration_ms("task.cancellation.timeout"))
