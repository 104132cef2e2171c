"""Writes an epoch to a sink, and the context of its commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.connectors.sink import CommitContext, Sink, WriterContext

CONTEXT = WriterContext(
    job_id="b" * 32,
    uid="sink",
    subtask=0,
    parallelism=1,
    epoch=1,
    attempt_id="bbbbbbbb-0-1-0",
    now_ms=77,
    scratch_dir="",
)


def write(sink: Sink, values: list[Any], epoch: int = 1, **changes: Any) -> list[Any]:
    subtask = changes.get("subtask", 0)
    attempt = f"bbbbbbbb-0-{epoch}-{subtask}"
    writer = sink.create_writer(replace(CONTEXT, epoch=epoch, attempt_id=attempt, **changes))
    writer.write(values, None, 0)
    committables = writer.prepare_commit()
    writer.close()
    return committables


def at(epoch: int, job: str = "b", spark: Any = None) -> CommitContext:
    return CommitContext(job * 32, "sink", epoch, None, False, 0, spark)
