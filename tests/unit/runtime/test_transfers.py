"""What a worker uploads and fetches itself, beside its epochs."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import PenstockError, StateNotHereError
from penstock.core.handles import FileHandle
from penstock.files.area import HomeArea
from penstock.graph.job_graph import JobGraph
from penstock.runtime.records import (
    Errand,
    JobProgram,
    OperatorVersion,
    Order,
    StateSettings,
    SubtaskVersion,
)
from penstock.runtime.state_files import open_area
from penstock.runtime.transfers import Pace, Transfers

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.runtime.records import Delivery

KEY = (1, 0)


def program(directory: Path, attempt: int = 0, kept: frozenset[str] = frozenset()) -> JobProgram:
    state = StateSettings("hashmap", str(directory / "job" / "state"), "", 0, stays=True)
    return JobProgram("c" * 32, attempt, JobGraph("job", (), ()), state, kept=kept)


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomeArea:
    (tmp_path / "spark").mkdir()
    (tmp_path / "store").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'spark'},/elsewhere")
    found = open_area(program(tmp_path))
    assert isinstance(found, HomeArea)
    return found


def answers(
    transfers: Transfers, job: JobProgram, area: HomeArea, errand: Errand
) -> list[Delivery]:
    """Attends until there is an answer for each order."""
    found: list[Delivery] = []
    while len(found) < len(errand.orders):
        found = transfers.attend(job, area, KEY, errand)
    return sorted(found)


def test_an_order_is_carried_out_once_and_answered_until_it_is_taken_back(
    tmp_path: Path, area: HomeArea
) -> None:
    job, transfers = program(tmp_path), Transfers()
    handle = area.write("a", b"content")
    store = tmp_path / "store" / "0-a"
    errand = Errand((Order(7, handle, str(store)),))
    ((number, error, _),) = answers(transfers, job, area, errand)
    assert (number, error) == (7, "")
    assert store.read_bytes() == b"content"
    # Its plan still says so, since no report of it counted.
    store.unlink()
    assert [each.number for each in transfers.attend(job, area, KEY, errand)] == [7]
    assert not store.exists()
    assert transfers.attend(job, area, KEY, None) == []


def test_another_worker_that_gets_the_order_finds_the_file_there(
    tmp_path: Path, area: HomeArea
) -> None:
    job = program(tmp_path)
    handle = area.write("a", b"content")
    errand = Errand((Order(7, handle, str(tmp_path / "store" / "0-a")),))
    assert not answers(Transfers(), job, area, errand)[0].error
    assert not answers(Transfers(), job, area, errand)[0].error


class Worker:
    """Threads that upload, in a time of their own."""

    def __init__(self) -> None:
        self.passed_s = self.beside_s = 0.0
        self.naps: list[float] = []
        self.pace = Pace(lambda: self.passed_s, lambda: self.beside_s, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.passed_s += seconds

    def upload(self, pieces: int) -> None:
        """Each piece takes 10 ms of a core."""
        for _ in range(pieces):
            self.pace.begin()
            self.beside_s += 0.01
            self.pace.end()


def test_uploads_beside_records_take_a_small_share_of_a_core() -> None:
    worker = Worker()
    worker.upload(100)
    # The last piece has no successor to wait for it.
    assert worker.passed_s == pytest.approx(0.99 / worker.pace.share)
    assert worker.pace.share <= 0.15
    # Where there are no records the rest is at once.
    worker.pace.share, before_s = 1.0, worker.passed_s
    worker.upload(100)
    assert worker.passed_s == before_s


def test_what_others_compute_while_nothing_is_uploaded_does_not_count() -> None:
    worker = Worker()
    worker.beside_s = 60.0
    worker.upload(1)
    worker.beside_s = 120.0
    worker.pace.begin()
    assert worker.passed_s == pytest.approx(0.01 / worker.pace.share)


def test_pieces_at_the_same_time_are_counted_once() -> None:
    worker = Worker()
    for _ in range(8):
        worker.pace.begin()
    worker.beside_s = 0.08
    for _ in range(8):
        worker.pace.end()
    # None is under way now.
    worker.beside_s += 60.0
    worker.upload(2)
    assert worker.passed_s == pytest.approx(0.09 / worker.pace.share)


@pytest.mark.parametrize("is_idle", [False, True])
def test_a_large_file_is_uploaded_at_its_pace_and_at_once_where_there_are_no_records(
    tmp_path: Path, area: HomeArea, is_idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker()
    job, transfers = program(tmp_path), Transfers(worker.pace)
    monkeypatch.setattr(worker.pace, "_beside_s", time.process_time)
    data = bytes(range(256)) * (40 << 10)
    errand = Errand((Order(7, area.write("a", data), str(tmp_path / "store" / "a")),))
    found: list[Delivery] = []
    while not found:
        found = transfers.attend(job, area, KEY, errand, is_idle=is_idle)
    assert not found[0].error
    assert (tmp_path / "store" / "a").read_bytes() == data
    # Ten MiB are three pieces.
    assert len(worker.naps) >= 2 if not is_idle else not worker.naps


def test_what_cannot_be_uploaded_is_said(tmp_path: Path, area: HomeArea) -> None:
    job, transfers = program(tmp_path), Transfers()
    store = tmp_path / "store"
    lost = FileHandle("lost", 3, "0" * 64)
    whole, damaged = area.write("whole", b"abc"), area.write("damaged", b"abc")
    (area.directory / "damaged").write_bytes(b"abd")
    (store / "taken").write_bytes(b"abx")
    orders = (
        Order(1, lost, str(store / "lost")),
        Order(2, damaged, str(store / "damaged")),
        Order(3, whole, str(tmp_path / "no-directory" / "whole")),
        Order(4, whole, str(store / "taken")),
        Order(5, whole, str(store / "whole")),
    )
    found = answers(transfers, job, area, Errand(orders))
    assert [bool(each.error) for each in found] == [True, True, True, True, False]
    assert sorted(path.name for path in store.iterdir()) == ["taken", "whole"]


def test_bytes_go_to_the_driver_where_no_place_is_named(tmp_path: Path, area: HomeArea) -> None:
    handle = area.write("a", b"content")
    found = answers(Transfers(), program(tmp_path), area, Errand((Order(1, handle, ""),)))
    assert found[0].data == b"content"


def test_files_that_are_gone_are_removed(tmp_path: Path, area: HomeArea) -> None:
    area.write("a", b"x")
    area.write("b", b"x")
    Transfers().attend(program(tmp_path), area, KEY, Errand((), ("a", "never-here")))
    assert [path.name for path in area.directory.iterdir()] == ["b"]


def restored(tmp_path: Path, **contents: bytes) -> SubtaskVersion:
    """A version whose files are in a store only."""
    handles = []
    for name, data in contents.items():
        (tmp_path / "store" / name).write_bytes(data)
        handles.append(FileHandle(name, len(data), hashlib.sha256(data).hexdigest()))
    operator = OperatorVersion((), tuple(handles), ((),) * len(handles))
    places = {name: str(tmp_path / "store" / name) for name in contents}
    return SubtaskVersion("restored", {"uid": operator}, is_restored=True, places=places)


def test_a_restored_version_is_fetched_but_for_what_is_here(tmp_path: Path, area: HomeArea) -> None:
    version = restored(tmp_path, a=b"first", b=b"second", c=b"third")
    (area.directory / "a").write_bytes(b"first")
    (area.directory / "b").write_bytes(b"damage")
    (tmp_path / "store" / "a").unlink()
    Transfers().fetch(program(tmp_path), area, version)
    found = [area.read(handle) for handle in version.files]
    assert found == [b"first", b"second", b"third"]


@pytest.mark.parametrize("damage", [b"thirx", b"thi", None])
def test_damage_in_storage_is_found_before_use(
    tmp_path: Path, area: HomeArea, damage: bytes | None
) -> None:
    version = restored(tmp_path, c=b"third")
    path = tmp_path / "store" / "c"
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(PenstockError, match="store/c"):
        Transfers().fetch(program(tmp_path), area, version)
    assert not (area.directory / "c").exists()


def test_state_that_is_not_here_is_called_so(area: HomeArea) -> None:
    with pytest.raises(StateNotHereError, match=r"'lost'.*is not in .*latest checkpoint"):
        area.read(FileHandle("lost", 3, "0" * 64))


def test_a_new_attempt_removes_what_earlier_ones_left(tmp_path: Path, area: HomeArea) -> None:
    first, second = program(tmp_path), program(tmp_path, 1, frozenset({"kept"}))
    for name in ("kept", f"{first.run_name}e1", f"{second.run_name}e2"):
        area.write(name, b"x")
    open_area(second)
    left = {path.name for path in area.directory.iterdir()}
    assert left == {"kept", f"{second.run_name}e2"}
