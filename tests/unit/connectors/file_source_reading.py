"""Short forms for building file sources and reading all they hold."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.connectors.files.formats import StreamFormat
from penstock.connectors.files.source import (
    FileSource,
    FileSourceBuilder,
)
from penstock.connectors.source import Budget, Discovery

PLENTY = Budget(1 << 20, 1 << 30, 0)


def text(*paths: Path | str) -> FileSourceBuilder:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), *map(str, paths))


def names(discovery: Discovery) -> list[str]:
    return [Path(split.data["path"]).name for split in discovery.splits]


def lines(source: FileSource, discovery: Discovery, budget: Budget = PLENTY) -> list[Any]:
    values: list[Any] = []
    with closing(source.create_reader()) as reader:
        for split in discovery.splits:
            position, finished = split.start, False
            while not finished:
                result = reader.read(split, position, budget)
                values += result.values
                position, finished = result.position, result.finished
    return values


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{path}\n")
