"""The exception tree. Every text names the thing, the value, the limit and the next step.

PenstockError
├── ProgramError            the program cannot be built or is used wrongly
│   ├── UnsupportedError    a call of PyFlink that Penstock does not have
│   └── ConfigurationError  a setting is unknown, malformed or out of range
├── EnvironmentError_       Java, PySpark or pandas is missing or of a wrong version
├── StateError              state is damaged, incompatible or used outside its scope
│   └── StateNotHereError   a task runs where its state files are not
└── JobExecutionError       the job failed; for a user's exception its own frames come first
    ├── InputError          the input cannot be read as the program says, or output is refused
    ├── FetchFailedError    records did not reach another executor
    ├── ExecutorLostError   executors were lost, with state that only they had
    ├── ProcessLostError    a process of Spark's died: its JVM, an executor, a Python worker
    └── UserFunctionError

A job is not restarted after a `ProgramError`, an `EnvironmentError_` or an `InputError`: the next
attempt would run the same program in the same place, and read the same input again.
"""

from __future__ import annotations

import importlib
import reprlib
from importlib import metadata
from typing import Any, Final


class PenstockError(Exception):
    """Base of everything Penstock raises.

    Attributes:
        failure_label: The cause of a failure of a job, for those who count them.
    """

    failure_label = "other"


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

    failure_label = "state-not-here"


class JobExecutionError(PenstockError):
    """The job failed."""


class InputError(JobExecutionError):
    """The input cannot be read as the program says, and will be the same when it is read again."""

    failure_label = "input"


class ProcessLostError(JobExecutionError):
    """A process of Spark's died while it ran an epoch, most often for lack of memory.

    Attributes:
        failure_label: What was lost. `engine-lost` is the JVM that the session lives in: Spark has
            to be started again.
    """

    def __init__(self, message: str, failure_label: str) -> None:
        super().__init__(message)
        self.failure_label = failure_label


class FetchFailedError(JobExecutionError):
    """Records did not reach another executor, though Spark tried several times."""

    failure_label = "fetch-failed"


class ExecutorLostError(JobExecutionError):
    """An executor was lost that kept state, or executors were lost in each try of an epoch."""

    failure_label = "executor-lost"


class UserFunctionError(JobExecutionError):
    """A user's function raised; the text starts with the user's own frames.

    Attributes:
        operator_name: Name of the operator that called the function.
        uid: Uid of that operator.
        subtask: Index of the subtask.
        epoch: Epoch in which it happened; set where the driver raises it.
        record: Shortened text of the record, or None outside a record.
        cause_type: Qualified name of the user's exception.
    """

    failure_label = "user-function"

    def __init__(  # noqa: PLR0913 - one field per fact of the report
        self,
        message: str,
        *,
        operator_name: str = "",
        uid: str = "",
        subtask: int = 0,
        record: str | None = None,
        cause_type: str = "",
    ) -> None:
        super().__init__(message)
        self.operator_name = operator_name
        self.uid = uid
        self.subtask = subtask
        self.epoch = 0
        self.record = record
        self.cause_type = cause_type


_LASTING = (ProgramError, EnvironmentError_, InputError)
_LASTING_CAUSES = frozenset({"SyntaxError", "IndentationError", "TabError", "NameError"})
"""Exceptions of functions that only a changed program does not raise again."""
_LASTING_OF_COMMITS = _LASTING_CAUSES | {"TypeError"}
"""A restart commits the same output, which is plain data: its types stay what they are."""


def is_lasting(error: BaseException) -> bool:
    """Whether an error would be met again by every further attempt of the same job."""
    if isinstance(error, UserFunctionError):
        return error.cause_type in _LASTING_CAUSES
    return isinstance(error, _LASTING)


def is_lasting_in_commit(error: BaseException) -> bool:
    """Whether an error of a committer would be met again when the same is committed."""
    return is_lasting(error) or type(error).__name__ in _LASTING_OF_COMMITS


RECORD_CHARACTERS: Final = 200

_repr: Final = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = RECORD_CHARACTERS
_repr.maxtuple = _repr.maxlist = _repr.maxdict = _repr.maxset = _repr.maxfrozenset = 40


def shorten(value: Any, most: int = RECORD_CHARACTERS) -> str:
    """Returns the text of a value, cut to so many characters, whatever its `__repr__` does."""
    try:
        text = _repr.repr(value)
    except Exception as error:
        return f"<{type(value).__qualname__}, whose __repr__ raised {type(error).__name__}>"
    return text if len(text) <= most else text[: most - 3] + "..."


def name_of(function: Any) -> str:
    """Returns the name that the program gave to a function."""
    return str(getattr(function, "__qualname__", repr(function))).rpartition(".<locals>.")[2]


def nothing_returned(function: Any, what: str) -> ProgramError:
    """Returns the error for a function that gave None where it must give `what`."""
    return ProgramError(
        f"{name_of(function)} returned None instead of {what}. Is a return missing?"
    )


def install_extra(extra: str) -> str:
    """Returns the command that installs what an extra of this package names.

    By the packages themselves, since the extra's own name works only where an index has Penstock.
    """
    wanted = f"extra == '{extra}'"
    lines = [each.partition(";") for each in metadata.requires("penstock") or ()]
    named = [f"'{package.strip()}'" for package, _, when in lines if when.strip() == wanted]
    return f"pip install {' '.join(named)}"


def module_of_extra(name: str, needed_by: str, package: str, extra: str) -> Any:
    """Returns a module of a package that only some programs need.

    Args:
        name: Of the module.
        needed_by: Subject and verb of the error, such as `Delta tables need`.
        package: Its name for pip.
        extra: Brings it along.

    Raises:
        EnvironmentError_: It is not installed, or lacks a library of the system's.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise EnvironmentError_(
            f"{needed_by} the package {package}. Install it with: {install_extra(extra)}."
        ) from None
