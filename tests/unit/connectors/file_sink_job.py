"""Writes and commits to a file sink, epoch n at n seconds, and sees what is visible."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.connectors.file_sink.encoders import Encoder, OutputFormat
from penstock.connectors.file_sink.rolling import BucketAssigner, RollingPolicy
from penstock.connectors.file_sink.sink import (
    FileSink,
)
from penstock.connectors.sink import CommitContext, WriterContext

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT = WriterContext(
    job_id="a" * 32,
    uid="sink",
    subtask=0,
    parallelism=2,
    epoch=1,
    attempt_id="aaaaaaaa-0-1-0",
    now_ms=0,
    scratch_dir="",
)


def rows(folder: Path | str, **policy: int) -> FileSink:
    """A sink of text in the base path."""
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.with_rolling_policy(RollingPolicy.default_rolling_policy(**policy)).build()


def bulk(folder: Path, output_format: OutputFormat) -> FileSink:
    builder = FileSink.for_bulk_format(str(folder), output_format)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def write(sink: FileSink, values: list[Any], epoch: int, **changes: Any) -> list[Any]:
    """Writes one epoch; epoch n is at n seconds."""
    changes = {
        "attempt_id": f"aaaaaaaa-0-{epoch}-{changes.get('subtask', 0)}",
        "now_ms": epoch * 1000,
        **changes,
    }
    writer = sink.create_writer(replace(CONTEXT, epoch=epoch, **changes))
    writer.write(values, None, 0)
    committables = writer.prepare_commit()
    writer.close()
    return committables


def at(epoch: int, *, final: bool = False, seconds: int = 0) -> CommitContext:
    """A commit of an epoch, at as many seconds."""
    return CommitContext("a" * 32, "sink", epoch, None, final, (seconds or epoch) * 1000)


def parts(folder: Path) -> dict[str, str]:
    """Visible files by their path without the id."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            name = re.sub(r"-[0-9a-f]{16}", "", str(path.relative_to(folder)))
            assert name not in found
            found[name] = path.read_text()
    return found


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*")]
