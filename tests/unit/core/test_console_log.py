"""Warnings on the console, as a program of its own sees them."""

from __future__ import annotations

import subprocess
import sys

import pytest

WARN = "import logging, penstock\nlogging.getLogger('penstock.job').warning('beware of %s', 'it')\n"
OWN = "import logging, sys\nlogging.basicConfig(format='mine: %(message)s')\n"
CHILD = (
    "import logging, sys\n"
    "own = logging.StreamHandler()\n"
    "own.setFormatter(logging.Formatter('ours: %(message)s'))\n"
    "logging.getLogger('penstock.job').addHandler(own)\n"
)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (WARN, "WARNING beware of it\n"),
        (OWN + WARN, "mine: beware of it\n"),
        (CHILD + WARN, "ours: beware of it\n"),
        (WARN + OWN + WARN, "WARNING beware of it\nmine: beware of it\n"),
        (WARN.replace("warning", "info"), ""),
        ("import logging, penstock\nlogging.warning('of the program')\n", "WARNING:root:of the"),
    ],
    ids=["nothing", "configured", "own-handler", "configured-later", "info", "the-programs"],
)
def test_warnings_say_that_they_are_ones(program: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == ""
    assert done.stderr.removesuffix(" program\n" if said.endswith("of the") else "") == said
