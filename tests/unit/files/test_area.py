from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import resource
import stat
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.errors import StateError
from penstock.files.area import FileArea
from penstock.files.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path


def test_few_bytes_travel_in_the_handle_and_more_become_a_file(tmp_path: Path) -> None:
    area = FileArea(tmp_path / "state", inline_threshold_bytes=4)
    few, more = area.write("few", b"1234"), area.write("more", b"12345")
    assert few.inline == b"1234"
    assert more.inline is None
    assert (tmp_path / "state" / "more").read_bytes() == b"12345"
    assert sorted(os.listdir(tmp_path / "state")) == ["more"]
    assert more.sha256 == hashlib.sha256(b"12345").hexdigest()
    assert (area.read(few), area.read(more)) == (b"1234", b"12345")


def test_a_threshold_of_zero_makes_a_file_of_everything(tmp_path: Path) -> None:
    area = FileArea(tmp_path, inline_threshold_bytes=0)
    assert area.write("a", b"1").inline is None
    assert area.read(area.write("empty", b"")) == b""


def test_the_default_threshold_is_20_kb(tmp_path: Path) -> None:
    area = FileArea(tmp_path)
    assert area.write("a", b"x" * 20480).inline is not None
    assert area.write("b", b"x" * 20481).inline is None


def test_nobody_else_may_read(tmp_path: Path) -> None:
    area = FileArea(tmp_path / "state", 0)
    area.write("a", b"1")
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "state" / "a").stat().st_mode) == 0o600


def test_a_name_is_never_written_twice(tmp_path: Path) -> None:
    area = FileArea(tmp_path, 0)
    first, second = area.write("a", b"first"), area.write("a", b"second")
    assert first.name != second.name
    assert (area.read(first), area.read(second)) == (b"first", b"second")


@pytest.mark.parametrize("damage", [b"12344", b"1234", b"", b"123456"])
def test_damage_is_found_and_named(tmp_path: Path, damage: bytes) -> None:
    area = FileArea(tmp_path, 0)
    handle = area.write("precious", b"12345")
    (tmp_path / "precious").write_bytes(damage)
    for check in (area.read, area.verify):
        with pytest.raises(StateError, match="precious") as error:
            check(handle)
        if len(damage) == 5:
            assert handle.sha256 in str(error.value)
            assert hashlib.sha256(damage).hexdigest() in str(error.value)
        else:
            assert f"has {len(damage)} bytes, expected 5" in str(error.value)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    area = FileArea(tmp_path, 0)
    data = bytes(range(64))
    handle = area.write("a", data)
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        (tmp_path / "a").write_bytes(broken)
        with pytest.raises(StateError):
            area.read(handle)


def test_inline_bytes_are_checked_too(tmp_path: Path) -> None:
    area = FileArea(tmp_path)
    with pytest.raises(StateError, match="SHA-256"):
        area.read(dataclasses.replace(area.write("a", b"12345"), inline=b"12344"))


def test_a_file_is_read_once_to_be_verified_unless_it_was_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = FileArea(tmp_path, 0).write("a", b"12345")
    looks: list[str] = []
    digest_of = hashlib.file_digest

    def counting(file: Any, name: str) -> Any:
        looks.append(file.name)
        return digest_of(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counting)
    for _ in range(3):
        FileArea(tmp_path, 0).verify(handle)
    assert len(looks) == 1
    with pytest.raises(StateError, match="SHA-256"):
        FileArea(tmp_path, 0).verify(dataclasses.replace(handle, sha256="0" * 64))
    looks.clear()
    (tmp_path / "a").write_bytes(b"12346")
    for _ in range(2):
        with pytest.raises(StateError, match="SHA-256"):
            FileArea(tmp_path, 0).verify(handle)
    assert len(looks) == 2
    outside = tmp_path / "outside"
    outside.write_bytes(b"abcdef")
    adopted = FileArea(tmp_path, 0).adopt(outside, "adopted")
    looks.clear()
    FileArea(tmp_path, 0).verify(adopted)
    assert not looks, "its own checksum was taken when it was adopted"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    area = FileArea(tmp_path, 0)
    handle = area.write("gone", b"12345")
    (tmp_path / "gone").unlink()
    for use in (area.read, area.verify, lambda it: area.link_into(it, tmp_path, "x")):
        with pytest.raises(StateError, match="gone"):
            use(handle)


def test_adopted_files_are_linked_and_keep_their_bytes(tmp_path: Path) -> None:
    area = FileArea(tmp_path / "state", 2)
    outside = tmp_path / "000001.sst"
    outside.write_bytes(b"abcdef")
    handle = area.adopt(outside, "v1~000001.sst")
    assert area.path(handle).samefile(outside)
    again = area.adopt(outside, "v1~000001.sst")
    assert again.name != handle.name
    outside.unlink()
    assert area.read(handle) == area.read(again) == b"abcdef"
    small = tmp_path / "CURRENT"
    small.write_bytes(b"ab")
    assert area.adopt(small, "v1~CURRENT").inline == b"ab"


def test_handles_appear_in_private_directories(tmp_path: Path) -> None:
    area = FileArea(tmp_path / "state", 2)
    private = area.private_directory("clone")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    big, small = area.write("big", b"abcdef"), area.write("small", b"ab")
    assert area.link_into(big, private, "x").samefile(area.path(big))
    assert area.link_into(small, private, "y").read_bytes() == b"ab"


def test_without_hard_links_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    area = FileArea(tmp_path / "state", 0)
    outside = tmp_path / "outside"
    outside.write_bytes(b"abcdef")
    monkeypatch.setattr(os, "link", refuse)
    handle = area.adopt(outside, "copied")
    assert area.read(handle) == b"abcdef"
    assert not area.path(handle).samefile(outside)
    assert area.link_into(handle, tmp_path, "again").read_bytes() == b"abcdef"


@pytest.mark.parametrize("copied", [False, True], ids=["written", "copied"])
def test_a_full_disk_is_named_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    """Files of the process may have 100,000 bytes at most, as on a disk of that size."""
    area = FileArea(tmp_path / "state", 0)
    outside = tmp_path / "outside"
    outside.write_bytes(bytes(200_000))

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(StorageError, match=r"cannot write .* in .*/state: File too large"):
            if copied:
                area.adopt(outside, "a")
            else:
                area.write("a", bytes(200_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(area.directory.iterdir()) == []
