"""What a verb says: Flink's lines, for `--quiet` the bare result, for `--json` one document.

Lines and results go to the standard output; notices, progress and failures to standard error.
"""

from __future__ import annotations

import json
from typing import Any

import click


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
        """Says the result as one JSON document."""
        if self.as_json:
            click.echo(json.dumps(document, indent=2, ensure_ascii=False))

    def notice(self, text: str) -> None:
        """Says what the user should know beside the result."""
        if not self.is_quiet:
            click.echo(text, err=True)
