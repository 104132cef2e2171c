"""The package that carries a program to a job manager: one zip file, names inside it checked.

    <program>.py                      the program, under its own name
    files/<n>/<name>                  python.files: modules, packages, zips
    archives/<n>/<name>               python.archives
    requirements/<n>/<name>           python.requirements, and its directory of packages

`build_package` packs what is on this machine and replaces each path in the settings by
`package:<member>`; `resolve` turns those into paths below the directory to which `unpack_package`
unpacked. Other schemes (`s3://…`) are left for Spark to fetch. The same content always gives the
same bytes, so the checksum names the package.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from penstock.core.errors import ConfigurationError, ProgramError
from penstock.core.setting_texts import parse_files, to_text

SCHEME: Final = "package:"
MAX_MEMBERS: Final = 10_000
MAX_UNPACKED_BYTES: Final = 1024 * 1024 * 1024

_FOLDERS: Final = {
    "python.files": "files",
    "python.archives": "archives",
    "python.requirements": "requirements",
}
_SKIPPED: Final = frozenset({"__pycache__", ".git", ".venv"})
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def build_package(
    program: Path | None, configuration: Mapping[str, str]
) -> tuple[bytes, dict[str, str]]:
    """Packs a program and the files that its settings name.

    Args:
        program: The script; None for a module that comes with `python.files`.
        configuration: Settings of the command line, by key.

    Returns:
        The zip file, and the settings as they read inside it.
    """
    settings = dict(configuration)
    members: dict[str, Path] = {}
    if program is not None:
        members[program.name] = program
    for key, folder in _FOLDERS.items():
        if settings.get(key):
            is_one = key == "python.requirements"
            items = [settings[key]] if is_one else parse_files(settings[key])
            packed = [
                _packed(item, key, f"{folder}/{number}", members)
                for number, item in enumerate(items)
            ]
            settings[key] = packed[0] if is_one else to_text(packed)
    return _zip(members), settings


def _packed(item: str, key: str, folder: str, members: dict[str, Path]) -> str:
    """Adds what an item of a setting names; returns the item as it reads inside the package."""
    path, mark, rest = item.partition("#")
    changed = _packed_path(path, key, folder, members)
    if key == "python.requirements" and rest:
        # Behind the mark is a directory of packages here, and a name to unpack to elsewhere.
        rest = _packed_path(rest, key, f"{folder}-packages", members)
    return changed + mark + rest


def _packed_path(text: str, key: str, folder: str, members: dict[str, Path]) -> str:
    if "://" in text and not text.startswith("file://"):
        return text
    path = Path(text.removeprefix("file://"))
    if not path.exists():
        raise ConfigurationError(f"{key} names '{text}', which does not exist.")
    name = path.resolve().name
    for member, found in _files_below(path, f"{folder}/{name}"):
        members[member] = found
    return f"{SCHEME}{folder}/{name}"


def _files_below(
    path: Path, member: str, above: frozenset[Path] = frozenset()
) -> Iterator[tuple[str, Path]]:
    """Yields the files of a directory; a link to a directory above it is not followed."""
    if not path.is_dir():
        yield member, path
        return
    real = path.resolve()
    if real in above:
        return
    for each in sorted(path.iterdir()):
        if each.name not in _SKIPPED:
            yield from _files_below(each, f"{member}/{each.name}", above | {real})


def _zip(members: Mapping[str, Path]) -> bytes:
    total = 0
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        for name in sorted(members):
            try:
                content = members[name].read_bytes()
            except OSError as error:
                raise ProgramError(f"{members[name]} cannot be packed: {error}.") from None
            total += len(content)
            _check_bounds(len(members), total)
            package.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _check_bounds(members: int, size_bytes: int) -> None:
    if members > MAX_MEMBERS or size_bytes > MAX_UNPACKED_BYTES:
        raise ProgramError(
            f"the job's package holds {members:,} files of {size_bytes:,} bytes or more; the limit "
            f"is {MAX_MEMBERS:,} files of {MAX_UNPACKED_BYTES:,} bytes together. Ship data through "
            "a file system and name its path in the program."
        )


def unpack_package(package: bytes, directory: Path) -> None:
    """Writes the members of a package below a directory, after their names were checked.

    Raises:
        ProgramError: It is no zip file, too large or damaged, or a name in it leads elsewhere.
    """
    check_zip(package)
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        for member in opened.infolist():
            target = directory / member.filename
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                # The zip file reader stops at the length that was checked, and compares checksums.
                target.write_bytes(opened.read(member))
            except (zipfile.BadZipFile, RuntimeError, zlib.error) as error:
                raise ProgramError(f"{member.filename!r:.100} is damaged: {error}.") from None


def check_zip(package: bytes) -> frozenset[str]:
    """Checks a package without unpacking it; returns the names in it.

    Raises:
        ProgramError: It is no zip file, or holds what may not be unpacked.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(package)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        raise ProgramError("the package is not a zip file, or it is damaged.") from None
    if len(members) > MAX_MEMBERS:
        raise ProgramError(f"the package holds more than {MAX_MEMBERS:,} files.")
    if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
        raise ProgramError(f"the package unpacks to more than {MAX_UNPACKED_BYTES:,} bytes.")
    for member in members:
        if _is_unsafe(member):
            raise ProgramError(
                f"the package holds {member.orig_filename[:200]!r}, which cannot be unpacked "
                "safely: names are relative, without '..', and nothing is a link."
            )
    return frozenset(member.filename for member in members)


def _is_unsafe(member: zipfile.ZipInfo) -> bool:
    name = member.orig_filename
    parts = name.rstrip("/").split("/")
    mode = member.external_attr >> 16
    kind = stat.S_IFMT(mode)
    return (
        not name
        or name.startswith("/")
        or "\\" in name
        or ":" in parts[0]
        or any(ord(character) < 32 for character in name)
        or any(part in ("", ".", "..") for part in parts)
        or kind not in (0, stat.S_IFREG, stat.S_IFDIR)
        or bool(member.flag_bits & 0x1)
    )


def resolve(configuration: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Returns the settings with paths below the directory of an unpacked package."""
    return {
        key: value.replace(SCHEME, f"{directory}/") if key in _FOLDERS else value
        for key, value in configuration.items()
    }
