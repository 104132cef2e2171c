"""What became of a command: as the driver says, or as follows from the end of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.jobmanager.dispatching import CommandKind, Operation, OperationStatus

if TYPE_CHECKING:
    from penstock.core.job import JobStatus
    from penstock.jobmanager.job_directory import JobDirectory


def find_operation(directory: JobDirectory, trigger_id: str, status: JobStatus) -> Operation | None:
    """Returns the operation of a trigger id; None if it is unknown.

    Args:
        directory: Of the job.
        trigger_id: Which.
        status: Where the job stands.
    """
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
