"""What became of a command: as the driver says, or as follows from the end of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.jobmanager.dispatching import CommandKind, Operation, OperationStatus, RefusedError

if TYPE_CHECKING:
    from penstock.core.job import JobStatus
    from penstock.jobmanager.job_directory import JobDirectory

_KEPT_COMMANDS: Final = 200
_MOST_OPEN_COMMANDS: Final = 1000


def make_room(directory: JobDirectory) -> None:
    """Forgets the oldest commands that are done.

    Raises:
        RefusedError: Too many are not.
    """
    known = directory.command_ids()
    done = [each for each in known if directory.result(each) is not None]
    if len(known) - len(done) >= _MOST_OPEN_COMMANDS:
        raise RefusedError(
            f"{len(known) - len(done)} requests to job {directory.job_id} are under way; wait for "
            "some of them."
        )
    for trigger_id in done[:-_KEPT_COMMANDS]:
        directory.forget_command(trigger_id)


def find_operation(directory: JobDirectory, trigger_id: str, status: JobStatus) -> Operation | None:
    """Returns the operation of a trigger id; None if it is unknown."""
    command = directory.command(trigger_id)
    if command is None:
        return None
    result = directory.result(trigger_id)
    if result is not None:
        return Operation(
            trigger_id,
            OperationStatus[result.status],
            result.location,
            result.checkpoint_id,
            result.error,
        )
    if not status.is_terminal_state():
        return Operation(trigger_id, OperationStatus.IN_PROGRESS)
    if command.kind == CommandKind.CANCEL.value:
        return Operation(trigger_id, OperationStatus.COMPLETED)
    error = f"the job ended ({status.name}) before the {command.kind} was done."
    return Operation(trigger_id, OperationStatus.FAILED, error=error)
