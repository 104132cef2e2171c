"""How the command line fails: what is raised, and the exit code that scripts see.

0    done
1    failed or refused
2    wrong usage
3    damage or differences were found
4    no job manager, or none that leads
130  interrupted
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

import click

from penstock.core.errors import PenstockError

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
FOUND: Final = 3
NO_MANAGER: Final = 4
INTERRUPTED: Final = 130

SEE_HELP: Final = "Use the help option (-h or --help) to get help on the command."


class WrongUsageError(click.UsageError):
    """The command line cannot be understood, or asks for what there is not."""


class RequestFailedError(PenstockError):
    """The job manager refused, or what it did failed; the text is its own."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NoManagerError(PenstockError):
    """No job manager answers at the address, or none leads."""


class FoundError(PenstockError):
    """Nothing failed, but there is damage or a difference; the report is already printed."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns a sentence with the nearest of the known words, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""
