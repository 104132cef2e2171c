"""The exception tree. Every text names the thing, the value, the limit and the next step.

PenstockError
├── ProgramError            the program cannot be built or is used wrongly
│   ├── UnsupportedError    a call of PyFlink that Penstock does not have
│   └── ConfigurationError  a setting is unknown, malformed or out of range
├── EnvironmentError_       Java, PySpark or pandas is missing or of a wrong version
├── StateError              state is damaged, incompatible or used outside its scope
│   └── StateNotHereError   a task runs where its state files are not
└── JobExecutionError       the job failed; for a user's exception its own frames come first
    ├── InputError          the input is there and cannot be read as the program says
    ├── ProcessLostError    a process of Spark's died: its JVM, an executor, a Python worker
    └── UserFunctionError

A job is not restarted after a `ProgramError`, an `EnvironmentError_` or an `InputError`: the next
attempt would run the same program in the same place, and read the same input again.
"""

from __future__ import annotations


class PenstockError(Exception):
    """Base of everything Penstock raises."""


class ProgramError(PenstockError):
    """The program cannot be built, or a call is used wrongly."""


class UnsupportedError(ProgramError):
    """A call that PyFlink has and Penstock does not; the text names what to use instead."""


class ConfigurationError(ProgramError):
    """A setting is unknown, malformed or out of range."""


class EnvironmentError_(PenstockError):
    """Java, PySpark or another requirement is missing or has a wrong version."""


class StateError(PenstockError):
    """State is damaged, incompatible, or was used outside its scope."""


class StateNotHereError(StateError):
    """A task runs on an executor that does not have its state files, as after a lost executor."""


class JobExecutionError(PenstockError):
    """The job failed."""


class InputError(JobExecutionError):
    """The input cannot be read as the program says, and will be the same when it is read again."""


class ProcessLostError(JobExecutionError):
    """A process of Spark's died while it ran an epoch, most often for lack of memory.

    Attributes:
        is_engine: It was the JVM that the session lives in: Spark has to be started again.
    """

    def __init__(self, message: str, *, is_engine: bool = False) -> None:
        super().__init__(message)
        self.is_engine = is_engine


class UserFunctionError(JobExecutionError):
    """A user's function raised; the text starts with the user's own frames.

    Attributes:
        operator_name: Name of the operator that called the function.
        uid: Uid of that operator.
        subtask: Index of the subtask.
        epoch: Epoch in which it happened.
        record: Shortened text of the record, or None outside a record.
        cause_type: Qualified name of the user's exception.
    """

    def __init__(  # noqa: PLR0913 - one field per fact of the report
        self,
        message: str,
        *,
        operator_name: str = "",
        uid: str = "",
        subtask: int = 0,
        epoch: int = 0,
        record: str | None = None,
        cause_type: str = "",
    ) -> None:
        super().__init__(message)
        self.operator_name = operator_name
        self.uid = uid
        self.subtask = subtask
        self.epoch = epoch
        self.record = record
        self.cause_type = cause_type


_LASTING = (ProgramError, EnvironmentError_, InputError)
_LASTING_CAUSES = frozenset({"SyntaxError", "IndentationError", "TabError", "NameError"})
"""Exceptions of functions that only a changed program does not raise again."""


def is_lasting(error: BaseException) -> bool:
    """Whether an error would be met again by every further attempt of the same job."""
    if isinstance(error, UserFunctionError):
        return error.cause_type in _LASTING_CAUSES
    return isinstance(error, _LASTING)
