"""The file sink is stopped at every change of the file system; its output is there once."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from file_sink_job import CONTEXT, at, hidden, parts, rows, write

from penstock.connectors.file_sink import parts as part_files
from penstock.core.errors import JobExecutionError


class Crash(Exception):
    """The driver died here."""


def crash_points(monkeypatch: pytest.MonkeyPatch, after: int, *, effect: bool) -> list[str]:
    """Makes the n-th change of the file system fail, before or after it has its effect."""
    done: list[str] = []

    def wrap(name: str, function: Any) -> Any:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            done.append(name)
            fails = len(done) == after
            if fails and not effect:
                raise Crash(name)
            result = function(*arguments, **options)
            if fails:
                raise Crash(name)
            return result

        return wrapper

    for name in ("rename", "unlink", "write_text"):
        monkeypatch.setattr(Path, name, wrap(name, getattr(Path, name)))
    monkeypatch.setattr(part_files, "make_durable", wrap("make_durable", part_files.make_durable))
    return done


@pytest.mark.parametrize("effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("restores", [True, False], ids=["restored", "same committer"])
def test_every_point_of_a_crash(tmp_path: Path, effect: bool, restores: bool) -> None:
    """Fails the first change, then the second, until a commit passes untouched."""
    crashes = 0
    for after in range(1, 60):
        folder = tmp_path / f"{after}"
        folder.mkdir()
        sink = rows(folder, part_size=4)
        committer = sink.create_committer()
        committer.commit(write(sink, ["a"], 1), at(1))  # Stays open.
        state = committer.snapshot()
        later = [
            one
            for epoch, text in ((2, "b"), (3, "c"), (4, "d"), (5, "efg"), (6, "hij"))
            for one in write(sink, [text], epoch)
        ]
        with pytest.MonkeyPatch.context() as patch:
            done = crash_points(patch, after, effect=effect)
            try:
                committer.commit(later, at(6))
            except Crash:
                crashes += 1
        if restores:
            committer = sink.create_committer()
            committer.restore(state)
        committer.commit(later, at(6))
        assert parts(folder) == {
            "part-0-000001": "a\nb\n",
            "part-0-000003": "c\nd\n",
            "part-0-000005": "efg\n",
            "part-0-000006": "hij\n",
        }
        assert hidden(folder) == []
        if len(done) < after:
            break
    assert crashes > 15


def test_output_that_is_lost_is_an_error(tmp_path: Path) -> None:
    sink = rows(tmp_path)
    committables = write(sink, ["a"], 1)
    (tmp_path / committables[0]["pending"]).unlink()
    with pytest.raises(JobExecutionError, match="the output of epoch 1 is lost"):
        sink.create_committer().commit(committables, at(1))


def test_an_older_state_knows_what_became_visible_since(tmp_path: Path) -> None:
    """A savepoint from before several commits: its output is there already, and once."""
    sink = rows(tmp_path, part_size=4)
    committer = sink.create_committer()
    first = write(sink, ["a"], 1)
    committer.commit(first, at(1))
    state = committer.snapshot()
    for epoch, text in ((2, "b"), (3, "c"), (4, "d")):
        committer.commit(write(sink, [text], epoch), at(epoch))
    before = parts(tmp_path)
    assert before == {"part-0-000001": "a\nb\n", "part-0-000003": "c\nd\n"}
    old = sink.create_committer()
    old.restore(state)
    old.commit(first, at(5))
    assert parts(tmp_path) == before


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    sink = rows(tmp_path, part_size=2)
    writer = sink.create_writer(CONTEXT)
    writer.write(["a"], None, 0)
    writer.write(["b"], None, 0)
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_output_becomes_visible_where_it_was_written(tmp_path: Path) -> None:
    """A job goes on from a snapshot that owes output, and its sink has another directory."""
    first, second = rows(tmp_path / "first", part_size=4), rows(tmp_path / "second", part_size=4)
    committer = first.create_committer()
    committer.commit(write(first, ["a"], 1), at(1))  # Stays open.
    owed = [*write(first, ["b"], 2), *write(first, ["c"], 3)]
    state = committer.snapshot()
    committer = second.create_committer()
    committer.restore(state)
    committer.commit(owed, at(3))
    committer.commit(write(second, ["d"], 4), at(4, final=True))
    expected = {"part-0-000001": "a\nb\n", "part-0-000003": "c\n"}
    assert parts(tmp_path / "first") == expected
    assert parts(tmp_path / "second") == {"part-0-000004": "d\n"}
    assert hidden(tmp_path / "first") == hidden(tmp_path / "second") == []


def test_output_that_was_moved_with_its_directory_is_found(tmp_path: Path) -> None:
    owed = write(rows(tmp_path / "first"), ["a"], 1)
    (tmp_path / "first").rename(tmp_path / "second")
    committer = rows(tmp_path / "second").create_committer()
    committer.commit(owed, at(1, final=True))
    assert parts(tmp_path / "second") == {"part-0-000001": "a\n"}


def test_output_that_is_nowhere_is_named_with_both_directories(tmp_path: Path) -> None:
    owed = write(rows(tmp_path / "first"), ["a"], 1)
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    committer = rows(tmp_path / "second").create_committer()
    with pytest.raises(JobExecutionError, match=r"output of epoch 1 is lost.*/first/.*/second"):
        committer.commit(owed, at(1, final=True))


def test_an_error_of_the_file_system_names_the_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = rows(tmp_path)
    owed = write(sink, ["a"], 1)
    monkeypatch.setattr(part_files, "make_durable", full)
    with pytest.raises(
        JobExecutionError, match=r"/part-0-000001-\w+ cannot be written: .*No space"
    ):
        sink.create_committer().commit(owed, at(1, final=True))
