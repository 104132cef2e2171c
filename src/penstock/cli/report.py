"""What a verb says: Flink's lines, for `--quiet` the bare result, for `--json` one document.

Lines and results go to the standard output; notices, progress and failures to standard error. The
exit code says how it ended:

0    done
1    failed or refused
2    wrong usage
3    damage or differences were found
4    no job manager, or none that leads
130  interrupted
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

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


class Report:
    """Says things in the way the user asked for."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.is_quiet = quiet

    @property
    def for_people(self) -> bool:
        """Whether words are wanted at all."""
        return not (self.as_json or self.is_quiet)

    @property
    def shows_output(self) -> bool:
        """Whether what programs print is wanted: not where a script reads the bare result."""
        return self.as_json or not self.is_quiet

    def line(self, text: str) -> None:
        """Says a line that is not the result itself."""
        if self.for_people:
            click.echo(text)

    def result(self, text: str) -> None:
        """Says the result, in quiet mode its only line."""
        if self.is_quiet and not self.as_json:
            click.echo(text)

    def text(self, text: str) -> None:
        """Says what is the result in every mode but JSON."""
        if not self.as_json:
            click.echo(text)

    def document(self, document: Any) -> None:
        if self.as_json:
            click.echo(json.dumps(document, indent=2, ensure_ascii=False))

    def notice(self, text: str) -> None:
        """Says what the user should know beside the result."""
        if not self.is_quiet:
            click.echo(text, err=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Returns aligned lines; a column whose cells are all numbers stands to the right."""
    texts = [[shown(cell) for cell in row] for row in rows]
    widths = [
        max([len(header), *(len(row[index]) for row in texts)])
        for index, header in enumerate(headers)
    ]
    right = [
        bool(rows) and all(_is_number(row[index]) for row in rows) for index in range(len(headers))
    ]
    lines = [headers, *texts]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def shown(cell: Any) -> str:
    """Returns a cell as text of one line, without what a terminal would obey."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return printable(str(cell))


def printable(text: str) -> str:
    """Returns text whose control characters are written out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """Returns text of several lines, such as a traceback, without what a terminal would obey."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.splitlines())


def _is_number(cell: Any) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))
