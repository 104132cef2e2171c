"""Flink's own client, where it is installed, and ours say the same lines about the same answers.

One command of each kind, since a JVM starts for each; `test_cli_lines.py` holds the others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import penstock
from stub_manager import ID_ENDED, ID_OTHER, ID_RUNNING, StubJob, StubManager

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = sorted((ROOT / ".bench").glob("pyflink/lib/python*/site-packages/pyflink/bin/flink"))
JAVA = shutil.which("java")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not CLIENTS or JAVA is None, reason="Flink's client is not installed"),
]


def flink(*arguments: str) -> list[str]:
    """Runs Flink's client; returns its lines without the JVM's and the logger's own."""
    assert JAVA is not None
    done = subprocess.run(
        ["bash", str(CLIENTS[0]), *arguments],
        env={**os.environ, "JAVA_HOME": str(Path(JAVA).resolve().parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return [line for line in done.stdout.splitlines() if not line.startswith(("WARN", "SLF4J"))]


@pytest.mark.parametrize(
    "command",
    [
        "list -a",
        f"stop -d -p /x {ID_RUNNING}",
        f"cancel -s {ID_RUNNING}",
    ],
    ids=lambda command: command.replace(ID_RUNNING, "id"),
)
def test_the_same_lines_and_requests(manager: StubManager, command: str) -> None:
    manager.add(StubJob(ID_OTHER, "later", "CREATED"), StubJob(ID_ENDED, "over", "FAILED"))
    action, *rest = command.split()
    theirs = flink(action, "-m", manager.url, *rest)
    sent = [request.split()[0] for request, _, _ in manager.requests]
    manager.requests.clear()
    manager.operations.clear()
    ours = penstock(action, "-m", manager.url, *rest)
    assert (ours.code, ours.err) == (0, "")
    assert ours.lines == theirs
    assert {method for method in sent if method != "GET"} == {
        request.split()[0] for request, _, _ in manager.requests if not request.startswith("GET")
    }
