"""Which files are found, when, and what happens to those that change."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.connectors.files.source import (
    FileEnumeratorProvider,
    FileSplitAssignerProvider,
)
from penstock.connectors.source import Boundedness, Budget
from penstock.core.errors import JobExecutionError, ProgramError
from penstock.core.times import Duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

from file_source_reading import lines, names, text, write

# -- what is found --------------------------------------------------------------------------------


def test_hidden_files_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, "b", "a", "_SUCCESS", ".part.inprogress", "_temporary/0/x", "deep/er/c", ".d/e")
    assert names(text(tmp_path).build().discover(None, 0)) == ["a", "b", "c"]
    assert names(text(tmp_path).set_recursive(False).build().discover(None, 0)) == ["a", "b"]


def test_a_hidden_file_can_be_named(tmp_path: Path) -> None:
    write(tmp_path, "_x")
    assert names(text(tmp_path / "_x").build().discover(None, 0)) == ["_x"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.log", ["1.log", "2.log"]),
        ("?.log", ["1.log", "2.log"]),
        ("[1]*", ["1.log"]),
        ("day*", ["3.log"]),
        ("**/*.log", ["1.log", "2.log", "3.log"]),
        ("*.none", []),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    write(tmp_path, "1.log", "2.log", "a.txt", "day1/3.log", "_hidden.log")
    assert names(text(tmp_path / pattern).build().discover(None, 0)) == expected


def test_a_path_with_brackets_may_be_a_file(tmp_path: Path) -> None:
    write(tmp_path, "a[1].txt", "a1.txt")
    assert names(text(tmp_path / "a[1].txt").build().discover(None, 0)) == ["a[1].txt"]


def test_a_file_found_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "a", "b")
    source = text(tmp_path, tmp_path / "a", f"file://{tmp_path}/b").build()
    assert lines(source, source.discover(None, 0)) == ["a", "b"]


def test_urls_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a b")
    monkeypatch.chdir(tmp_path)
    relative = text("a b").build()
    monkeypatch.chdir("/")
    for source in (relative, text(f"file://{tmp_path}/a%20b").build()):
        assert lines(source, source.discover(None, 0)) == ["a b"]
    with pytest.raises(ProgramError, match="names the host 'server'"):
        text("file://server/a")


def test_links_in_a_circle(tmp_path: Path) -> None:
    write(tmp_path, "in/a")
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    assert names(text(tmp_path / "in").build().discover(None, 0)) == ["a"]


def test_missing_paths_are_errors(tmp_path: Path) -> None:
    with pytest.raises(JobExecutionError, match=r"nothing does not exist\. Create it first"):
        text(tmp_path / "nothing").build().discover(None, 0)
    with pytest.raises(ProgramError, match="at least one path"):
        text()


def test_ranges_and_their_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 25)
    builder = text(tmp_path / "a").set_cut_bytes(10)
    splits = builder.build().discover(None, 0).splits
    assert [(split.start, split.data["end"]) for split in splits] == [(0, 10), (10, 20), (20, 25)]
    assert [split.split_id.rsplit("/", 1)[1] for split in splits] == ["a#0", "a#10", "a#20"]
    builder.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
    assert len(builder.build().discover(None, 0).splits) == 1


# -- watching -------------------------------------------------------------------------------------


def test_new_files_are_found_once(tmp_path: Path) -> None:
    write(tmp_path, "a")
    source = text(tmp_path).monitor_continuously(Duration.of_seconds(1)).build()
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    first = source.discover(None, 5000)
    assert (names(first), first.complete) == (["a"], False)
    write(tmp_path, "b")
    early = source.discover(first.state, 5999)
    assert names(early) == []
    second = source.discover(early.state, 6000)
    assert names(second) == ["b"]
    # The state of a checkpoint: what came later is found again, what came before is not.
    write(tmp_path, "c")
    assert names(source.discover(first.state, 9000)) == ["b", "c"]
    assert names(source.discover(second.state, 9000)) == ["c"]
    # A file that was read may be replaced, or go.
    (tmp_path / "a").write_text("other")
    (tmp_path / "b").unlink()
    assert names(source.discover(second.state, 9000)) == ["c"]


def test_older_files_come_first(tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "c")
    for name, seconds in (("a", 30), ("b", 10), ("c", 20)):
        os.utime(tmp_path / name, (seconds, seconds))
    source = text(tmp_path).monitor_continuously(timedelta(milliseconds=1)).build()
    assert names(source.discover(None, 0)) == ["b", "c", "a"]


def test_a_clock_that_was_set_back_does_not_stop_polling(tmp_path: Path) -> None:
    source = text(tmp_path).monitor_continuously(1000).build()
    state = source.discover(None, 10**9).state
    write(tmp_path, "a")
    assert names(source.discover(state, 5)) == ["a"]


@pytest.mark.parametrize("interval", [0, -1, "soon", None, True])
def test_intervals_are_checked(tmp_path: Path, interval: Any) -> None:
    with pytest.raises(ProgramError):
        text(tmp_path).monitor_continuously(interval)


def test_static_again(tmp_path: Path) -> None:
    source = text(tmp_path).monitor_continuously(5).process_static_file_set().build()
    assert source.boundedness is Boundedness.BOUNDED
    assert source.discover(None, 0).complete


# -- files that are not what they were ------------------------------------------------------------


def test_a_file_that_grew(tmp_path: Path) -> None:
    write(tmp_path, "a")
    source = text(tmp_path).build()
    discovery = source.discover(None, 0)
    with (tmp_path / "a").open("a") as file:
        file.write("more\n")
    with pytest.raises(JobExecutionError, match=r"/a changed .* with 2 bytes.* it has 7 bytes"):
        lines(source, discovery)


def test_a_file_that_was_rewritten(tmp_path: Path) -> None:
    write(tmp_path, "a")
    os.utime(tmp_path / "a", ns=(0, 0))
    source = text(tmp_path).build()
    discovery = source.discover(None, 0)
    os.utime(tmp_path / "a", ns=(0, 10**9))
    with pytest.raises(JobExecutionError) as error:
        lines(source, discovery)
    assert "changed 1970-01-01 00:00:00" in str(error.value)
    assert "changed 1970-01-01 00:00:01" in str(error.value)


def test_a_file_that_vanished_while_it_is_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    source = text(tmp_path).build()
    split = source.discover(None, 0).splits[0]
    with closing(source.create_reader()) as reader:
        assert reader.read(split, 0, Budget(1, 99, 0)).values == ["1"]
        (tmp_path / "a").unlink()
        with pytest.raises(JobExecutionError, match="no longer exists"):
            reader.read(split, 2, Budget(1, 99, 0))


def test_a_new_state_leaves_the_old_one_alone(tmp_path: Path) -> None:
    write(tmp_path, "a")
    source = text(tmp_path).monitor_continuously(1).build()
    state = source.discover(None, 0).state
    before: Sequence[str] = list(state["seen"])
    write(tmp_path, "b")
    source.discover(state, 10)
    assert list(state["seen"]) == before


@pytest.mark.parametrize(("parallelism", "expected"), [(1, 2), (2, 2), (3, 6)])
def test_text_files_are_cut_when_there_are_fewer_than_subtasks(
    tmp_path: Path, parallelism: int, expected: int
) -> None:
    line = b"x" * 1023 + b"\n"
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(line * (40 * 1024))
    source = text(tmp_path).build()
    # 40 MiB each: three ranges of at most 16 MiB.
    splits = source.with_parallelism(parallelism).discover(None, 0).splits
    assert len(splits) == expected
