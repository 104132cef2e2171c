"""How errors name things: values cut short, functions as the program does, packages to install."""

from __future__ import annotations

import reprlib
from importlib import metadata
from typing import Any, Final

from penstock.core.errors import ProgramError

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
