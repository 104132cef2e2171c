"""Which files of Spark's log a query needs to go on at a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.streaming_feed import captured_log, restore_log

if TYPE_CHECKING:
    from pathlib import Path


def log(root: Path, *names: str) -> Path:
    restore_log(root, {name: name.encode() for name in names})
    return root


def test_the_first_batch_has_nothing_before_it(tmp_path: Path) -> None:
    root = log(tmp_path, "metadata", "offsets/0", "offsets/.0.crc", "sources/0/0")
    assert captured_log(root, 0, {}) == {
        "metadata": b"metadata",
        "offsets/0": b"offsets/0",
        "sources/0/0": b"sources/0/0",
    }


def test_a_later_batch_needs_the_end_of_the_one_before(tmp_path: Path) -> None:
    numbers = range(10)
    offsets, commits = [f"offsets/{n}" for n in numbers], [f"commits/{n}" for n in numbers[:-1]]
    root = log(tmp_path, "metadata", *offsets, *commits)
    assert list(captured_log(root, 9, {})) == ["metadata", "offsets/9", "offsets/8", "commits/8"]


def test_what_a_compacted_entry_contains_is_left_out(tmp_path: Path) -> None:
    entries = ["8", "9.compact", "10", "18", "19.compact", "20", ".21.crc", "21"]
    of_files = [f"sources/0/{name}" for name in entries]
    root = log(tmp_path, "metadata", "offsets/0", *of_files, "sources/1/0", "sources/1/schema/0")
    assert [name for name in captured_log(root, 0, {}) if name.startswith("sources")] == [
        "sources/0/19.compact",
        "sources/0/20",
        "sources/0/21",
        "sources/1/0",
        "sources/1/schema/0",
    ]


def test_what_was_captured_before_is_not_read_again(tmp_path: Path) -> None:
    root = log(tmp_path, "metadata", "offsets/0", "sources/0/0")
    before = captured_log(root, 0, {})
    again = log(tmp_path, "offsets/1", "commits/0")
    (again / "sources/0/0").write_bytes(b"is not looked at")
    assert captured_log(again, 1, before) == {
        **before,
        "offsets/1": b"offsets/1",
        "commits/0": b"commits/0",
    }
    restore_log(tmp_path / "elsewhere", captured_log(again, 1, before))
    assert captured_log(tmp_path / "elsewhere", 1, {}) == captured_log(again, 1, before)
