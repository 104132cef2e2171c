"""Turns a user's exception into `UserFunctionError`: the user's frames first, then where it was.

Operators wrap whole batches, never single records: which record failed is read off the iterator
that the loop ran over.

    records = iter(batch.values)
    with user_code(self.context, batch.values, records):
        values = [function(value) for value in records]
"""

from __future__ import annotations

import concurrent.futures._base
import operator
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import penstock
from penstock.core.errors import PenstockError, UserFunctionError, shorten
from penstock.state.tables import NO_KEY

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.operators.logic import OperatorContext

_OURS: Final = tuple(os.path.join(os.path.abspath(path), "") for path in penstock.__path__)
# The demo is a program as any other is, though it comes with the package.
_PROGRAMS: Final = tuple(os.path.join(path, "demo", "") for path in _OURS)
_STATE_GETTERS: Final = frozenset(
    f"get_{kind}state" for kind in ("", "list_", "map_", "reducing_", "aggregating_")
)
_ENGINE: Final = f"{os.sep}pyspark{os.sep}"
_FROZEN: Final = "<frozen "
"""Modules inside Python itself: those that import and run programs."""
_WAITING: Final = concurrent.futures._base.__file__
"""Where `execute()` waits for its job, and fails with it."""


class user_code:
    """Context manager around a loop over records that calls a user's function.

    Args:
        context: The operator, or its name where there is no context (an exchange).
        values: The records of the batch.
        records: The iterator over `values` that the loop consumes; None if there is none.
        what: What was going on, when it was not a record (`open()`).
        before: What failed on the way to the operator (a key selector); else empty.
    """

    __slots__ = ("_before", "_context", "_records", "_values", "_what")

    def __init__(
        self,
        context: OperatorContext | str,
        values: Sequence[Any] = (),
        records: Iterator[Any] | None = None,
        what: str | None = None,
        before: str = "",
    ) -> None:
        self._context = context
        self._before = before
        self._values = values
        self._records = records
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An operator further down the chain has already told its story.
        if isinstance(error, Exception) and not isinstance(error, UserFunctionError):
            record = None
            if self._records is not None:
                record = failing_record(self._values, self._records)
            raise function_error(error, self._context, record, self._what, self._before) from error


def results_of(
    function: Callable[[Any], Any], values: Sequence[Any], records: Iterator[Any]
) -> list[Any]:
    """Returns what a user's function returns for each of `values`, at the speed of `map`.

    Args:
        function: The function.
        values: The records of a batch.
        records: An iterator over them, which `user_code` looks at if the function raises.
    """
    results = list(map(function, records))
    while len(results) < len(values):
        # `map` takes a StopIteration of the function, such as of a `next()` without a default, for
        # the end, and would lose the rest in silence. The same call outside of it raises.
        results.append(function(values[len(results)]))
        results += map(function, records)
    return results


def failing_record(values: Sequence[Any], records: Iterator[Any]) -> str | None:
    """Returns the shortened text of the record that `records` gave last."""
    index = len(values) - operator.length_hint(records) - 1
    return shorten(values[index]) if 0 <= index < len(values) else None


def function_error(
    error: Exception,
    context: OperatorContext | str,
    record: str | None = None,
    what: str | None = None,
    before: str = "",
) -> UserFunctionError:
    """Returns the error to raise for a user's exception.

    Args:
        error: What the user's function raised.
        context: The operator, or its name.
        record: Shortened text of the record, if there was one.
        what: What was going on, when it was not a record.
        before: What failed on the way to the operator; else empty.
    """
    cause_type = _qualified_name(type(error))
    text, has_user_frames = _describe(error, in_user_call=True)
    lines = [text]
    if isinstance(context, str):
        name, uid, subtask = context, "", 0
        lines.append(f"in {before} before operator '{name}'" if before else f"in operator '{name}'")
    else:
        name, uid, subtask = context.name, context.uid, context.subtask
        lines.append(
            f"in operator '{name}' (uid '{uid}'), subtask {subtask + 1} of {context.parallelism}"
        )
        state = context.keyed_state
        # A batch that is reduced as a whole has no current key.
        if record is not None and state is not None and state.key is not NO_KEY:
            lines.append(f"  key: {shorten(state.key)}")
    if record is not None:
        lines.append(f"  record: {record}")
    if what is not None:
        lines.append(f"  during: {what}")
    hint = _hint(error, has_user_frames=has_user_frames)
    if hint is not None:
        lines.append(f"  hint: {hint}")
    return UserFunctionError(
        "\n".join(lines),
        operator_name=name,
        uid=uid,
        subtask=subtask,
        record=record,
        cause_type=cause_type,
    )


def _hint(error: Exception, *, has_user_frames: bool) -> str | None:
    """Returns the way out of the accidents that everybody has once."""
    if isinstance(error, TypeError):
        if not has_user_frames and "not iterable" in str(error):
            return "yield the results, or return an iterable of them, or None for none"
        frames = traceback.extract_tb(error.__traceback__)
        if "NoneType" in str(error) and frames and ".timestamp()" in (frames[-1].line or ""):
            return (
                "timestamp() is None, since the records have no timestamps; call "
                "assign_timestamps_and_watermarks(...) on the stream before this operator"
            )
    if isinstance(error, AttributeError) and error.name in _STATE_GETTERS:
        return f"state is obtained in open(self, context), by context.{error.name}(...)"
    return None


def describe_exception(error: BaseException) -> str:
    """Returns the traceback as text, without frames of Penstock and Spark if any others are there.

    When none are, it is ours to explain, and all frames stay.
    """
    return _describe(error, in_user_call=False)[0]


def traceback_of_user(error: BaseException) -> str:
    """Returns the traceback as text where it shows code that is not ours, else nothing."""
    text, has_user_frames = _describe(error, in_user_call=False)
    return text if has_user_frames else ""


def _describe(error: BaseException, *, in_user_call: bool) -> tuple[str, bool]:
    """Returns the text, and whether it holds frames of the user."""
    try:
        text = traceback.TracebackException.from_exception(error)
        whole = "".join(text.format()).rstrip("\n")
        files = {frame.filename for frame in text.stack}
        # Python's own import, which has no more to say: no such module, or no Python in it.
        is_import = bool(text.stack) and text.stack[-1].filename.startswith(_FROZEN)
        if _drop_our_frames(text, set()) or is_import:
            return "".join(text.format()).rstrip("\n"), True
        if isinstance(error, PenstockError):
            # Our own words say it all; where they were said does not matter.
            return f"{type(error).__name__}: {error}", False
        if in_user_call and len(files) == 1:
            # The operator's loop called a built-in (`map(int)`): it has no frames to show.
            return "".join(text.format()).rstrip("\n"), False
        return whole, False
    except Exception:
        # An exception whose __str__ or notes raise must not hide the failure.
        return f"{_qualified_name(type(error))} (its text cannot be made)", True


def _drop_our_frames(text: traceback.TracebackException, seen: set[int]) -> bool:
    """Removes our frames in place, from causes too; returns whether others are left."""
    if id(text) in seen:
        return False
    seen.add(id(text))
    kept = [frame for frame in text.stack or () if not is_ours(frame.filename)]
    # Without frames there is no "Traceback" line either.
    text.stack = traceback.StackSummary.from_list(kept) if kept else None  # type: ignore[assignment]
    found = bool(kept)
    for inner in (text.__cause__, text.__context__, *(text.exceptions or ())):
        if inner is not None:
            found = _drop_our_frames(inner, seen) or found
    return found


def is_ours(filename: str) -> bool:
    """Whether a frame is Penstock's, Spark's or Python's own machinery, and not the program's."""
    path = os.path.abspath(filename)
    if path.startswith(_PROGRAMS):
        return False
    is_engine = _ENGINE in path or path == _WAITING
    return path.startswith(_OURS) or is_engine or filename.startswith(_FROZEN)


def _qualified_name(kind: type) -> str:
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
