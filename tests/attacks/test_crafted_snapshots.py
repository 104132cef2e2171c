"""An attacker writes a snapshot whose folders are links; its disposal deletes nobody else's file.

The manager's user may delete the victim's files, so only the code stands before them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import pytest
from crafted_snapshots import handle, write_snapshot

from penstock.checkpoint.deletion import delete_entry, delete_shared, delete_snapshot
from penstock.checkpoint.manifest import ManifestKind
from penstock.checkpoint.snapshot_load import (
    download_files,
    load_snapshot,
    stored_files,
)
from penstock.files.errors import FilesError
from penstock.files.urls import Storages
from penstock.inspection.verify import verify_snapshot
from penstock.jobmanager.dispatching import Dispatcher
from penstock.jobmanager.job_records import OperationStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = b"the only copy of something"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_bytes(SECRET)
    return home / "thesis.txt"


@pytest.fixture
def crafted(tmp_path: Path, victim: Path) -> str:
    """Names `sub/thesis.txt`, and `sub` is a link to the victim's home."""
    directory = write_snapshot(tmp_path / "evil", handle("sub/thesis.txt", SECRET))
    (tmp_path / "evil" / "sub").symlink_to(victim.parent)
    return directory


class Disposing(Dispatcher):
    def is_running(self, job_id: str) -> bool:
        return False


def disposed(path: str) -> str | None:
    """Disposes of a savepoint as the job manager does; returns the error."""
    disposing = Disposing({}, lambda: "0" * 32)
    try:
        disposing.dispose_savepoint(path)
        while True:
            operation = disposing.disposal("0" * 32)
            assert operation is not None
            if operation.status is not OperationStatus.IN_PROGRESS:
                return operation.error
            threading.Event().wait(0.01)
    finally:
        disposing.end_disposals()


def test_disposal_follows_no_folder_that_is_a_link(crafted: str, victim: Path) -> None:
    error = disposed(crafted)
    assert victim.read_bytes() == SECRET
    assert error is not None
    assert "symbolic link" in error


def test_the_folder_that_is_a_link_stays_and_so_does_what_it_leads_to(
    tmp_path: Path, victim: Path
) -> None:
    """Folders that own files lay in are removed, but not through a link."""
    (victim.parent / "empty").mkdir()
    write_snapshot(tmp_path / "evil", handle("sub/empty/gone", b""))
    (tmp_path / "evil" / "sub").symlink_to(victim.parent)
    disposed(str(tmp_path / "evil"))
    assert (victim.parent / "empty").is_dir()


def test_a_link_deeper_down_is_not_followed_either(tmp_path: Path, victim: Path) -> None:
    directory = write_snapshot(tmp_path / "evil", handle("a/b/home/thesis.txt", SECRET))
    (tmp_path / "evil" / "a" / "b").mkdir(parents=True)
    (tmp_path / "evil" / "a" / "b" / "home").symlink_to(victim.parent)
    disposed(directory)
    assert victim.read_bytes() == SECRET


def test_a_file_that_is_a_link_goes_and_its_target_stays(tmp_path: Path, victim: Path) -> None:
    directory = write_snapshot(tmp_path / "evil", handle("data", SECRET))
    (tmp_path / "evil" / "data").symlink_to(victim)
    assert disposed(directory) is None
    assert not (tmp_path / "evil").exists()
    assert victim.read_bytes() == SECRET


def test_clean_up_of_a_subsumed_checkpoint_follows_no_link(tmp_path: Path, victim: Path) -> None:
    directory = tmp_path / "evil" / "chk-1"
    data = handle("sub/thesis.txt", SECRET)
    write_snapshot(directory, data, kind=ManifestKind.CHECKPOINT)
    (directory / "sub").symlink_to(victim.parent)
    storages = Storages()
    entry = load_snapshot(storages, str(directory)).entry(is_owned=True)
    assert not delete_entry(storages, entry).is_complete
    assert victim.read_bytes() == SECRET


def test_a_shared_folder_that_is_a_link_gives_nobody_elses_state_away(tmp_path: Path) -> None:
    """Shared files are known by their names, which are those of any job."""
    other = tmp_path / "other-job" / "shared"
    other.mkdir(parents=True)
    name = handle("x", SECRET).sha256 + "-1-writer"
    (other / name).write_bytes(SECRET)
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "shared").symlink_to(other)
    report = delete_shared(Storages(), [f"{tmp_path}/evil/shared/{name}"])
    assert not report.is_complete
    assert (other / name).read_bytes() == SECRET


def test_nothing_is_read_through_a_link(crafted: str, tmp_path: Path) -> None:
    """Else a restore, a verification or a copy would carry a file of the manager's user away."""
    storages = Storages()
    (problem,) = verify_snapshot(storages, crafted)["problems"]
    assert "symbolic link" in problem["text"]
    loaded = load_snapshot(storages, crafted)
    with pytest.raises(FilesError, match="symbolic link"):
        download_files(storages, loaded, tmp_path / "state")
    assert not list((tmp_path / "state").iterdir())
    content = stored_files(storages, loaded)(loaded.manifest.handles[0])
    with pytest.raises(FilesError, match="symbolic link"):
        list(content.pieces("a copy"))


def test_a_listing_shows_nothing_behind_a_link(tmp_path: Path, victim: Path) -> None:
    write_snapshot(victim.parent / "private", handle("a", b""))
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "sub").symlink_to(victim.parent)
    with pytest.raises(FilesError) as caught:
        load_snapshot(Storages(), str(tmp_path / "evil"))
    assert "private" not in str(caught.value)


def test_a_snapshot_replaced_by_a_link_after_it_was_read(tmp_path: Path, victim: Path) -> None:
    """The race: what is deleted lies where the manifest was read."""
    write_snapshot(tmp_path / "evil", handle("thesis.txt", SECRET))
    storages = Storages()
    loaded = load_snapshot(storages, str(tmp_path / "evil"))
    (tmp_path / "evil").rename(tmp_path / "aside")
    (tmp_path / "evil").symlink_to(victim.parent)
    delete_snapshot(storages, loaded)
    assert victim.read_bytes() == SECRET


def test_a_folder_exchanged_all_the_time_is_never_followed(tmp_path: Path, victim: Path) -> None:
    """Folder and link change places while the file is deleted, some thousand times."""
    write_snapshot(tmp_path / "evil", handle("sub/thesis.txt", SECRET))
    sub, link = tmp_path / "evil" / "sub", tmp_path / "evil" / "link"
    sub.mkdir()
    link.symlink_to(victim.parent)
    loaded = load_snapshot(Storages(), str(tmp_path / "evil"))
    with exchanging(sub, link):
        for _ in range(3_000):
            with contextlib.suppress(FilesError):
                loaded.storage.delete("sub/thesis.txt")
    assert victim.read_bytes() == SECRET


@contextlib.contextmanager
def exchanging(one: Path, other: Path) -> Iterator[None]:
    spare, over = one.with_name("spare"), threading.Event()

    def exchange() -> None:
        while not over.is_set():
            os.rename(one, spare)
            os.rename(other, one)
            os.rename(spare, other)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_metadata_without_an_end_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "_metadata").open("wb") as file:
        file.truncate(1 << 40)
    error = disposed(str(tmp_path))
    assert error is not None
    assert "1,099,511,627,776 bytes, more than" in error


def test_a_pipe_in_place_of_a_file_holds_nobody(tmp_path: Path) -> None:
    directory = write_snapshot(tmp_path / "evil", handle("data", SECRET))
    os.mkfifo(tmp_path / "evil" / "data")
    assert not verify_snapshot(Storages(), directory)["is_whole"]
    os.unlink(tmp_path / "evil" / "_metadata")
    os.mkfifo(tmp_path / "evil" / "_metadata")
    error = disposed(directory)
    assert error is not None
