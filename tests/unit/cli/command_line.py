"""Runs command lines in the test's own process."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from penstock.cli.main import run


@dataclass(frozen=True)
class Ran:
    """What a command line printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def penstock(*arguments: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    return Ran(code, out.getvalue(), err.getvalue())
