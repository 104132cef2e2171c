"""The file sink is stopped at every request to its storage; its output is there once."""

from __future__ import annotations

import contextlib
import errno
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from file_sink_job import CONTEXT, at, hidden, parts, rows, write

from penstock.connectors.file_sink import parts as part_files
from penstock.core.errors import JobExecutionError, PenstockError
from penstock.files.local import LocalStorage
from penstock.files.memory import MemoryStorage
from penstock.files.urls import Storages
from simulated_disk import Fault, FaultyStorage, SimulatedCrash, SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.files.contract import Storage

EXPECTED = {
    "part-0-000001": "a\nb\n",
    "part-0-000003": "c\nd\n",
    "part-0-000005": "efg\n",
    "part-0-000006": "hij\n",
}


def on(patch: pytest.MonkeyPatch, storage: Storage) -> None:
    """Has sinks write to a storage, without the retries around it."""
    openers = {"file": lambda url: storage, "memory": lambda url: storage}
    storages = Storages(openers=openers, retrying=lambda inner: inner)
    patch.setattr(part_files, "shared_storages", lambda settings: storages)


def files_of(storage: Storage) -> dict[str, str]:
    """All files by their key without the id, hidden ones too."""
    return {
        re.sub(r"-[0-9a-f]{16}", "", entry.key): storage.read(entry.key).decode()
        for entry in storage.list("")
    }


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("kind", ["disk", "object store"])
def test_every_point_of_a_crash(fault: Fault, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the first request, then the second, until a commit passes untouched."""
    dies = fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.GONE)
    reached = 0
    for call in range(1, 100):
        inner: Storage = MemoryStorage()
        if kind == "disk":
            inner = LocalStorage("/data", SimulatedDisk())
            inner.make_directory("")
        on(monkeypatch, inner)
        sink = rows("memory://out" if kind == "object store" else "/data", part_size=4)
        committer = sink.create_committer()
        committer.commit(write(sink, ["a"], 1), at(1))  # Stays open.
        state = committer.snapshot()
        later = [
            one
            for epoch, text in ((2, "b"), (3, "c"), (4, "d"), (5, "efg"), (6, "hij"))
            for one in write(sink, [text], epoch)
        ]
        faulty = FaultyStorage(inner, {call: fault})
        on(monkeypatch, faulty)
        committer = sink.create_committer()
        committer.restore(state)
        with contextlib.suppress(PenstockError, SimulatedCrash):
            committer.commit(later, at(6))
        if dies:
            on(monkeypatch, inner)
            committer = sink.create_committer()
            committer.restore(state)
        committer.commit(later, at(6))
        assert files_of(inner) == EXPECTED, (call, fault)
        reached += len(faulty.hit) > 0
        if not faulty.hit:
            break
    assert 25 < reached < 99


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_what_dead_attempts_left_is_removed(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an object store as soon as their epochs are committed, and not what is still owed."""
    inner = MemoryStorage()
    on(monkeypatch, FaultyStorage(inner, {2: fault}))
    sink = rows("memory://out", rollover_interval=10**9, inactivity_interval=10**9)
    with pytest.raises(SimulatedCrash):
        write(sink, ["lost"], 2, attempt_id="aaaaaaaa-0.1-2-0")
    on(monkeypatch, inner)
    lost = set(inner.files)
    assert len(lost) == (fault is Fault.CRASH_AFTER)
    committer = sink.create_committer()
    committer.commit(write(sink, ["a"], 1), at(1, seconds=100))
    running = write(sink, ["c"], 3)
    assert lost < set(inner.files)
    committer.commit(write(sink, ["b"], 2), at(2, seconds=200))
    assert len(inner.files) == 3  # Of both epochs, which wait in the open part, and what runs.
    assert not lost & set(inner.files)
    committer.commit(running, at(3, final=True, seconds=300))
    assert files_of(inner) == {"part-0-000001": "a\nb\nc\n"}


@pytest.mark.parametrize("kind", ["disk", "object store"])
def test_what_a_savepoint_names_outlives_the_process_that_took_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died before its next checkpoint; the next one does not know the savepoint."""
    inner: Storage = MemoryStorage()
    if kind == "disk":
        inner = LocalStorage("/data", SimulatedDisk())
        inner.make_directory("")
    on(monkeypatch, inner)
    sink = rows("memory://out" if kind == "object store" else "/data")
    promised = write(sink, ["a"], 2, attempt_id=f"aaaaaaaa{'1' * 12}-1.0-2-0")
    later = replace(at(3, final=True, seconds=100), line="2" * 12)
    ended = sink.create_committer()
    write(sink, ["left"], 3, attempt_id=f"aaaaaaaa{'2' * 12}-2.0-3-0")
    ended.commit(write(sink, ["b"], 3, attempt_id=f"aaaaaaaa{'2' * 12}-2.1-3-0"), later)
    ended.close()
    sink.create_committer().commit(promised, at(2, final=True))
    assert files_of(inner) == {"part-0-000002": "a\n", "part-0-000003": "b\n"}


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
    disk = SimulatedDisk()
    storage = LocalStorage("/data", disk)
    storage.make_directory("")
    on(monkeypatch, storage)
    sink = rows("/data")
    owed = write(sink, ["a"], 1) + write(sink, ["b"], 2)
    # The list of what is joined, which is small, and then the part itself.
    disk.failures = dict.fromkeys(range(disk.calls + 1, disk.calls + 100), errno.ENOSPC)
    with pytest.raises(
        JobExecutionError, match=r"/part-0-000001-\w+ cannot be written: .*No space"
    ):
        sink.create_committer().commit(owed, at(1, final=True))


@pytest.mark.parametrize("others_come", ["before", "after"])
def test_two_jobs_close_the_part_that_their_savepoint_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others_come: str
) -> None:
    """The second one does so just before or just after the first one has written it."""
    sink = rows(tmp_path)
    committer = sink.create_committer()
    committer.commit(write(sink, ["a"], 1) + write(sink, ["b"], 2), at(2))
    savepoint = committer.snapshot()

    def job(name: str) -> Callable[[], None]:
        owed = write(sink, [name], 3, job_id=name * 32)
        context = replace(at(3), job_id=name * 32)
        committer = sink.create_committer()
        committer.restore(savepoint)
        committer.commit(owed, context)
        # A minute later.
        return lambda: committer.commit([], replace(context, now_ms=63_000))

    first, second = job("c"), job("d")
    written, late = LocalStorage.write, [second]

    def beside(storage: LocalStorage, key: str, *content: Any, **how: Any) -> None:
        is_part = not key.startswith(".")
        if is_part and late and others_come == "before":
            late.pop()()
        written(storage, key, *content, **how)
        if is_part and late:
            late.pop()()

    monkeypatch.setattr(LocalStorage, "write", beside)
    for commit in (first, first, second):
        with contextlib.suppress(JobExecutionError):
            commit()
    found = "".join(path.read_text() for path in tmp_path.glob("part-*"))
    assert sorted(found.split()) == ["a", "b", "c", "d"]
    assert hidden(tmp_path) == []
