"""One job on this job manager: its directory, its supervisor, its process.

`look` is called several times a second by the dispatcher's thread: it sees what the process and the
directory say, asks the supervisor what follows, does it, and remembers it in the directory.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
)
from penstock.jobmanager.processes import Child, Launcher, exit_text
from penstock.jobmanager.restart_strategies import RestartStrategy, restart_strategy

if TYPE_CHECKING:
    from penstock.core.times import Clock
    from penstock.jobmanager.job_directory import RecordFile

_log = logging.getLogger("penstock.jobmanager")


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
        self._launcher = launcher
        self._clock = clock
        self._attempt_epoch = attempt_epoch
        self._configuration = configuration
        self._child: Child | None = None
        # Of a job that has ended before us, for lists.
        self._status: JobRecord | None = directory.status.read()
        self._kill_reason: str | None = None
        self._is_settled = False
        self._stored = record
        self._supervisor = supervision.JobSupervisor(
            record,
            strategy=self._strategy,
            cancellation_timeout_ms=self._cancellation_timeout_ms,
            wall_ahead_ms=clock.wall_ms() - clock.monotonic_ms(),
        )

    def recover(self) -> None:
        """The job was there before this job manager, or this leadership."""
        if not self.has_ended:
            self._supervisor.recover(self._clock.wall_ms())

    # -- what is known --------------------------------------------------------------------------

    @property
    def record(self) -> JobRecord:
        return self._supervisor.record

    @property
    def job_id(self) -> str:
        return self.record.job_id

    @property
    def status(self) -> JobStatus:
        return self.record.status

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
        asked = msgspec.structs.replace(command, attempt=self.record.attempt)
        self.directory.command(trigger_id).write(asked)

    def operation(self, trigger_id: str) -> Operation | None:
        return self.directory.operation(trigger_id, self.status)

    def _note_cancellation(self) -> None:
        """Written first and durably: a later job manager must not start the job again."""
        if self.record.cancel_requested_ms is None:
            now_ms = self._clock.wall_ms()
            self._change(cancel_requested_ms=now_ms)

    # -- called by the dispatcher's thread ------------------------------------------------------

    def look(self, random: float) -> bool:
        """Does what is due; says whether the job ended, in the look that sees it end."""
        # Where its record cannot be stored, nothing has happened, and the next look decides again.
        before, supervisor = self._supervisor, copy.copy(self._supervisor)
        times_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        instructions = supervisor.observe(self._observe(), *times_ms, random)
        self._store(supervisor.record)
        self._supervisor = supervisor
        if supervisor.death not in {None, before.death}:
            _log.warning("Job %s restarts: %s", self.job_id, supervisor.death)
        for instruction in instructions:
            self._obey(instruction)
        if supervisor.has_ended and not before.has_ended:
            if self.status is JobStatus.FAILED:
                _log.error("Job %s has failed: %s", self.job_id, self.record.error)
            else:
                _log.info("Job %s is %s.", self.job_id, self.status.name)
            return True
        bound_file(self.directory.log)
        bound_file(self.directory.output)
        return False

    def clean_up_begins(self) -> int:
        """Returns the epoch in which to remove what its processes left: each try has its own."""
        tries = self.record.leftover
        self._change(leftover=tries + 1)
        return self._attempt_epoch(self.record.attempt + tries)

    def clean_up_ends(self) -> None:
        self._change(leftover=0)

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
        is_alive = self._is_alive()
        # After the question whether it lives: the last thing that it does is to say how it ended.
        end = self._said(self.directory.end)
        said = self._said(self.directory.status)
        self._status = said or self._status
        return supervision.Observation(is_alive, said, end, self._died_how())

    def _said(self, file: RecordFile[JobRecord]) -> JobRecord | None:
        """Returns what the present attempt says in a file."""
        said = file.read()
        return said if said is not None and said.attempt == self.record.attempt > 0 else None

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

    def _obey(self, instruction: supervision.Instruction) -> None:
        match instruction:
            case supervision.StartDriver(previous_death):
                self._start(previous_death)
            case supervision.KillDriver(reason):
                _log.warning("The process of job %s is killed: %s.", self.job_id, reason)
                self._kill_reason = reason
                self.kill()

    def _start(self, previous_death: str | None) -> None:
        # The group of the last one may have members left, and an adopted one may live.
        self.kill()
        self._kill_reason = None
        self._status = None
        record = self.record
        process = ProcessRecord(
            attempt=record.attempt,
            leader_epoch=self._attempt_epoch(record.attempt),
            previous_death=previous_death,
            restarts=record.restarts,
            failures=record.failures,
        )
        self.directory.process.write(process)
        submission = self.directory.submission.read()
        configuration = {} if submission is None else submission.configuration
        self._child = self._launcher.start(
            self.directory, record.attempt, configuration.get("python.client.executable")
        )
        _log.info("Job %s: attempt %d starts.", self.job_id, record.attempt)

    def _store(self, record: JobRecord) -> None:
        """Writes a record down before anything is done: a successor of ours must know of it."""
        if record != self._stored:
            self.directory.job.write(record)
            self._stored = record

    def _change(self, **changes: Any) -> None:
        record = msgspec.structs.replace(self.record, **changes)
        self._store(record)
        self._supervisor.record = record

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
        return restart_strategy(configuration, checkpointing=is_checkpointing)

    def _cancellation_timeout_ms(self) -> int:
        """Returns how long a cancellation may take before the process is killed."""
        return int(self._settings().get_duration_ms("task.cancellation.timeout"))
