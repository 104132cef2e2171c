"""Local state files go when no version names them, nobody reads them, and never before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.handles import FileHandle
from penstock.runtime.records import OperatorVersion, SubtaskVersion
from penstock.runtime.state_files import StateFiles

if TYPE_CHECKING:
    from pathlib import Path


def version(*names: str) -> SubtaskVersion:
    handles = tuple(FileHandle(name, 1, "0" * 64, None) for name in names)
    return SubtaskVersion(
        "-".join(names), {"uid": OperatorVersion((), handles, ((),) * len(handles))}
    )


def of(*versions: SubtaskVersion) -> dict[tuple[int, int], SubtaskVersion]:
    """The versions of the subtasks of a stage."""
    return {(0, index): each for index, each in enumerate(versions)}


def files(directory: Path, *names: str) -> StateFiles:
    for name in names:
        (directory / name).write_text("x")
    return StateFiles(str(directory))


def left(directory: Path) -> str:
    return "".join(sorted(path.name for path in directory.iterdir()))


def test_what_is_left_behind_goes(tmp_path: Path) -> None:
    state = files(tmp_path, "a", "b", "c")
    state.released(of(version("a", "b")), of(version("b", "c")))
    assert left(tmp_path) == "bc"


def test_pinned_files_stay_until_the_last_pin_goes(tmp_path: Path) -> None:
    state = files(tmp_path, "a", "b")
    first = state.pin([version("a")])
    second = state.pin_again(first)
    state.released(of(version("a")), of(version("b")))
    assert left(tmp_path) == "ab"
    state.unpin(first)
    assert left(tmp_path) == "ab"
    state.unpin(second)
    assert left(tmp_path) == "b"


def test_a_new_attempt_keeps_what_it_needs_and_what_is_pinned(tmp_path: Path) -> None:
    state = files(tmp_path, "a", "b", "c", "d")
    pinned = state.pin([version("c")])
    state.keep_only(of(version("a")))
    assert left(tmp_path) == "ac"
    state.unpin(pinned)
    assert left(tmp_path) == "a"


def test_files_that_no_version_ever_named_go_at_the_second_look(tmp_path: Path) -> None:
    state = files(tmp_path, "a", "x", "y")
    pinned = state.pin([version("y")])
    now = of(version("a"))
    for _ in range(50):
        state.released(now, now)
    assert left(tmp_path) == "axy"
    for _ in range(50):
        state.released(now, now)
    assert left(tmp_path) == "ay"
    state.unpin(pinned)
    assert left(tmp_path) == "a"


def test_new_files_are_told(tmp_path: Path) -> None:
    state = files(tmp_path, "a", "b", "c", "d")
    told: list[set[str]] = []
    state.on_new = told.append
    state.released(of(version("a", "b")), of(version("b", "c"), version("d")))
    state.released(of(version("b", "c"), version("d")), of(version("d")))
    assert told == [{"c", "d"}, set()]


def test_prepared_output_stays_until_it_is_let_go_and_no_upload_reads_it(tmp_path: Path) -> None:
    state = files(tmp_path, "a", "p", "q")
    new: list[set[str]] = []
    state.on_new = new.append
    state.hold({"p", "q"})
    state.hold(set())
    assert new == [{"p", "q"}]
    pinned = state.pin_again(frozenset({"p"}))
    state.keep_only(of(version("a")))
    state.let_go({"p", "q"})
    assert left(tmp_path) == "ap"
    state.unpin(pinned)
    assert left(tmp_path) == "a"


def test_output_of_an_aborted_epoch_goes_at_once(tmp_path: Path) -> None:
    state = files(tmp_path, "a", "p")
    state.let_go({"p"}, held=False)
    assert left(tmp_path) == "a"
