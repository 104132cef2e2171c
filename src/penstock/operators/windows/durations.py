"""Milliseconds from whatever a program writes for a span of time."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import ProgramError


def to_ms(value: Any, what: str) -> int:
    """Returns milliseconds of a `Time`, a `Duration`, a `timedelta` or a number of milliseconds.

    The classes live in the public packages, which nothing here may import: what counts is the
    method that they have.

    Raises:
        ProgramError: The value is none of these.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    for name in ("to_milliseconds", "to_millis"):
        method = getattr(value, name, None)
        if method is not None:
            return int(method())
    if hasattr(value, "total_seconds"):
        # Integer arithmetic: floats would be off by one for spans of centuries.
        return (value.days * 86_400 + value.seconds) * 1000 + value.microseconds // 1000  # type: ignore[no-any-return]
    raise ProgramError(
        f"{what} is {value!r}; give a Time, a Duration, a timedelta or whole milliseconds, "
        "for example Time.seconds(10)."
    )
