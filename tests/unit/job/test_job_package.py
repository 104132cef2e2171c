"""The package of a job: packs what settings name, refuses what leads out of its directory."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import ConfigurationError, ProgramError
from penstock.job.package import build_package, resolve, unpack_package

if TYPE_CHECKING:
    from pathlib import Path


def zip_of(*members: tuple[str, bytes], mode: int | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as package:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            if mode is not None:
                info.external_attr = mode << 16
            package.writestr(info, content)
    return buffer.getvalue()


def test_what_was_packed_is_there_when_unpacked(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "lib" / "__pycache__").mkdir(parents=True)
    (here / "app.py").write_text("print(1)")
    (here / "lib" / "one.py").write_text("A = 1")
    (here / "lib" / "__pycache__" / "one.pyc").write_bytes(b"stale")
    (here / "lib" / "again").symlink_to(here / "lib")
    (here / "two.py").write_text("B = 2")
    (here / "data.zip").write_bytes(b"zip")
    (here / "needs.txt").write_text("left-pad")
    (here / "wheels").mkdir()
    (here / "wheels" / "left.whl").write_bytes(b"wheel")
    package, settings = build_package(
        here / "app.py",
        {
            "python.files": f"{here}/lib,{here}/two.py,s3://bucket/three.py",
            "python.archives": f"file://{here}/data.zip#data",
            "python.requirements": f"{here}/needs.txt#{here}/wheels",
            "parallelism.default": "4",
        },
    )
    unpack_package(package, there)
    found = resolve(settings, there)
    assert (there / "app.py").read_text() == "print(1)"
    assert found["parallelism.default"] == "4"
    lib, two, three = found["python.files"].split(";")
    assert three == "s3://bucket/three.py"
    assert (there / lib / "one.py").read_text() == "A = 1"
    assert not (there / lib / "__pycache__").exists()
    assert (there / two).read_text() == "B = 2"
    archive, name = found["python.archives"].split("#")
    assert name == "data"
    assert (there / archive).read_bytes() == b"zip"
    needs, wheels = found["python.requirements"].split("#")
    assert (there / needs).read_text() == "left-pad"
    assert (there / wheels / "left.whl").read_bytes() == b"wheel"
    assert str(here) not in str(found)


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text("print(1)")
    first, _ = build_package(program, {})
    program.touch()
    assert build_package(program, {})[0] == first
    with zipfile.ZipFile(io.BytesIO(first)) as package:
        assert {member.date_time for member in package.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"python\.files names 'nowhere\.py'"):
        build_package(None, {"python.files": "nowhere.py"})
    with pytest.raises(ProgramError, match=r"app\.py cannot be packed"):
        build_package(tmp_path / "app.py", {})


@pytest.mark.parametrize(
    "name", ["../up.py", "/etc/passwd", "a/../../b", "C:\\b", "a\nb", "..", "c:d"]
)
def test_names_that_lead_out_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="names are relative"):
        unpack_package(zip_of(("ok.py", b""), (name, b"")), tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing is written before all names were checked"


def test_links_and_what_is_no_zip_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="nothing is a link"):
        unpack_package(zip_of(("link", b"/etc/passwd"), mode=0o120777), tmp_path)
    with pytest.raises(ProgramError, match="is not a zip file"):
        unpack_package(b"import os", tmp_path)


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("penstock.job.package.MAX_UNPACKED_BYTES", 10)
    (tmp_path / "a.py").write_bytes(b"x" * 11)
    with pytest.raises(ProgramError, match="Ship data through a file system"):
        build_package(tmp_path / "a.py", {})


def test_damage_is_found(tmp_path: Path) -> None:
    package = bytearray(zip_of(("a.py", b"print('hello')")))
    package[package.index(b"hello")] ^= 1
    with pytest.raises(ProgramError, match=r"'a\.py' is damaged"):
        unpack_package(bytes(package), tmp_path)
