"""The rules for connectors notice what breaks them, and pass what does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.custom import PythonSource
from penstock.connectors.user_sink import PythonSink
from penstock.testing.connectors import SinkTarget, check_sink, check_source

if TYPE_CHECKING:
    from penstock.connectors.sink import CommitContext, WriterContext


class Lines(PythonSource):
    """Ten lines in each of two splits."""

    bounded = True

    def splits(self) -> list[str]:
        return ["a", "b"]

    def end_offset(self, split: str) -> int:
        return 10

    def read(self, split: str, start: int, end: int) -> Any:
        return [f"{split}{offset}" for offset in range(start, end)]


LINES = [f"{split}{offset}" for split in "ab" for offset in range(10)]


class Losing(Lines):
    def read(self, split: str, start: int, end: int) -> Any:
        return super().read(split, start + (start > 0), end)


class Counting(Lines):
    reads = 0

    def read(self, split: str, start: int, end: int) -> Any:
        Counting.reads += 1
        return [f"{line} {Counting.reads}" for line in super().read(split, start, end)]


class Endless(Lines):
    bounded = False

    def end_offset(self, split: str) -> None:
        return None

    def latest_offset(self, split: str) -> int:
        return 10


def test_sources_that_keep_the_contract() -> None:
    check_source(Lines(), LINES)
    check_source(Endless(), reversed(LINES))


def test_sources_that_break_it() -> None:
    with pytest.raises(AssertionError, match=r"got 20 records, expected 21; missing: .*more"):
        check_source(Lines(), [*LINES, "more"])
    with pytest.raises(AssertionError, match="read in small parts, has other values"):
        check_source(Losing(), LINES)
    with pytest.raises(AssertionError, match="each record once"):
        check_source(Counting(), LINES)


class Staging(PythonSink):
    """Stages lines in a file, and renames it on commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, context: WriterContext) -> None:
        self.path = self.folder / f".{context.attempt_id}-{context.subtask}"
        self.lines: list[str] = []

    def write(self, value: Any, context: Any) -> None:
        self.lines.append(f"{value}\n")

    def prepare_commit(self) -> list[Any]:
        self.path.write_text("".join(self.lines))
        return [str(self.path)]

    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for path in map(Path, committables):
            if path.exists():
                path.rename(path.with_name(path.name[1:]))

    def abort(self, committables: list[Any], context: CommitContext) -> None:
        for path in map(Path, committables):
            path.unlink(missing_ok=True)

    def visible(self) -> list[str]:
        paths = [path for path in sorted(self.folder.iterdir()) if path.name[0] != "."]
        return [line for path in paths for line in path.read_text().splitlines()]


class Early(Staging):
    def prepare_commit(self) -> list[Any]:
        [path] = super().prepare_commit()
        super().commit([path], None)  # type: ignore[arg-type]
        return []


class Doubling(Staging):
    def commit(self, committables: list[Any], context: CommitContext) -> None:
        for path in map(Path, committables):
            with (self.folder / "all").open("a") as file:
                file.write(path.read_text())


class Overwriting(Staging):
    def open(self, context: WriterContext) -> None:
        super().open(context)
        self.path = self.folder / f".{context.epoch}-{context.subtask}"


class Keeping(Staging):
    def abort(self, committables: list[Any], context: CommitContext) -> None:
        self.commit(committables, context)


def made(kind: type[Staging]) -> Any:
    def make(folder: Path) -> SinkTarget:
        sink = kind(folder)
        return SinkTarget(sink, sink.visible)

    return make


def test_a_sink_that_keeps_the_contract(tmp_path: Path) -> None:
    check_sink(made(Staging), tmp_path)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Early, "nothing shows before it is committed: got 15 records, expected 0"),
        (Doubling, "a commit that is repeated adds nothing"),
        (Overwriting, "two attempts of an epoch are both kept"),
        (Keeping, "what was aborted never shows"),
    ],
)
def test_sinks_that_break_it(kind: type[Staging], text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=text):
        check_sink(made(kind), tmp_path)
