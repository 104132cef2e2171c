"""Runs programs that do not end, and waits for what they print."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from kafka_broker import dies_with_its_parent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 120


@contextlib.contextmanager
def running(program: Path) -> Iterator[queue.Queue[str]]:
    """Runs a program that does not end, and gives the lines that it prints."""
    settings = json.dumps({"penstock.spark.master": "in-process"})
    process = subprocess.Popen(
        [sys.executable, program],
        env={
            **os.environ,
            "PENSTOCK_DYNAMIC_PROPERTIES": settings,
            "PYTHONUNBUFFERED": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=dies_with_its_parent,
    )
    assert process.stdout is not None
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in process.stdout:
            lines.put(line.rstrip("\n"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lines
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


def wait_for(wanted: list[str], lines: queue.Queue[str]) -> None:
    """Waits until these lines were printed, in any order; parallel subtasks name themselves."""
    left, seen = list(wanted), []
    deadline = time.monotonic() + TIMEOUT_S
    while left:
        try:
            line = lines.get(timeout=max(deadline - time.monotonic(), 0.01))
        except queue.Empty:
            raise AssertionError(f"{left} missing in:\n" + "\n".join(seen)) from None
        seen.append(line)
        text = line.partition("> ")[2] or line
        if text in left:
            left.remove(text)
