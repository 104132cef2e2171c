"""A job's directory: all that job manager and driver process know of each other.

Each file has one writer and is replaced as a whole, so either side may be killed at any moment and
the other one, or its successor, reads what was last said. Names that come from outside (job ids,
trigger ids, names of documents) are checked before they become part of a path.

What the program prints goes to two files of bounded size: `log.txt` has all of it, between the
lines that are logged; `out.txt` has the standard output alone, which `penstock run` shows while it
waits. A reader holds a cursor, `<number of the file>-<bytes read>`. Where a job goes on at another
job manager the file is another one, and is read from its beginning.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from penstock.core.errors import PenstockError
from penstock.files.private import make_private, replace_file
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    JobRecord,
    Operation,
    OperationStatus,
    OutputPiece,
    ProcessRecord,
    RefusedError,
    Submission,
)

if TYPE_CHECKING:
    from penstock.core.job import JobStatus

_ID: Final = re.compile(r"[0-9a-f]{32}")
_DOCUMENT: Final = re.compile(r"[a-z0-9-]{1,64}(?:/[A-Za-z0-9_-]{1,64}){0,2}")
_ANY = TypeVar("_ANY")

FILE_MODE: Final = 0o600
MAX_OUTPUT_BYTES: Final = 64 * 1024 * 1024
_KEPT_COMMANDS: Final = 200
_MOST_OPEN_COMMANDS: Final = 1000


def is_id(text: str) -> bool:
    """Whether a name may be that of a job."""
    return bool(_ID.fullmatch(text))


def checked_id(text: str, what: str) -> str:
    """Returns an id that may become part of a path.

    Raises:
        RefusedError: It is not 32 hex digits.
    """
    if not isinstance(text, str) or not _ID.fullmatch(text):
        raise RefusedError(f"{text!r:.80} is no {what}; one has 32 hexadecimal digits.")
    return text


def is_document_name(name: str) -> bool:
    """Whether a document may have this name; such a name leads nowhere else."""
    return bool(_DOCUMENT.fullmatch(name))


class RecordFile(Generic[_ANY]):
    """A record in a file of its own, which is replaced as a whole.

    Args:
        path: The file.
        kind: Its type.
        durable: Whether a power cut must not take it back, as it must not a cancellation.
    """

    def __init__(self, path: Path, kind: type[_ANY], *, durable: bool = False) -> None:
        self._path = path
        self._kind = kind
        self._durable = durable

    def read(self) -> _ANY | None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return msgspec.json.decode(data, type=self._kind)
        except msgspec.DecodeError as error:
            raise PenstockError(
                f"{self._path} is damaged: {error}. Delete the job's directory if the job is not "
                "needed."
            ) from None

    def write(self, record: _ANY) -> None:
        replace_file(self._path, msgspec.json.encode(record), durable=self._durable)


class JobDirectory:
    """The files of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.commands = path / "commands"
        self.results = path / "results"
        self.documents = path / "documents"
        self.package = path / "package.zip"
        self.log = path / "log.txt"
        self.output = path / "out.txt"
        self.job = RecordFile(path / "job.json", JobRecord, durable=True)
        self.submission = RecordFile(path / "submission.json", Submission, durable=True)
        self.process = RecordFile(path / "process.json", ProcessRecord, durable=True)
        self.status = RecordFile(path / "status.json", JobRecord)
        self.end = RecordFile(path / "end.json", JobRecord, durable=True)
        self.settings = RecordFile(path / "settings.json", dict[str, str])

    @property
    def job_id(self) -> str:
        return self.path.name

    def create(self) -> None:
        for directory in (self.path, self.commands, self.results, self.documents):
            make_private(directory)

    def command(self, trigger_id: str) -> RecordFile[Command]:
        return RecordFile(self._file(self.commands, trigger_id), Command)

    def result(self, trigger_id: str) -> RecordFile[Operation]:
        return RecordFile(self._file(self.results, trigger_id), Operation)

    # -- commands and results -------------------------------------------------------------------

    def command_ids(self) -> list[str]:
        """Returns the trigger ids of all commands, oldest first."""
        found: list[tuple[int, str]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self.commands) as entries:
            for entry in entries:
                name = entry.name.removesuffix(".json")
                if _ID.fullmatch(name):
                    found.append((entry.stat().st_mtime_ns, name))
        return [name for _, name in sorted(found)]

    def forget_command(self, trigger_id: str) -> None:
        """Removes a command that is done, and what came of it."""
        for directory in (self.commands, self.results):
            self._file(directory, trigger_id).unlink(missing_ok=True)

    def make_room(self) -> None:
        """Forgets the oldest commands that are done.

        Raises:
            RefusedError: Too many are not.
        """
        known = self.command_ids()
        done = [each for each in known if self.result(each).read() is not None]
        if len(known) - len(done) >= _MOST_OPEN_COMMANDS:
            raise RefusedError(
                f"{len(known) - len(done)} requests to job {self.job_id} are under way; wait for "
                "some of them."
            )
        for trigger_id in done[:-_KEPT_COMMANDS]:
            self.forget_command(trigger_id)

    def operation(self, trigger_id: str, status: JobStatus) -> Operation | None:
        """Returns the operation of a trigger id, given where the job stands; None if unknown."""
        command = self.command(trigger_id).read()
        if command is None:
            return None
        done = self.result(trigger_id).read()
        if done is not None:
            return done
        if not status.is_terminal_state():
            return Operation(trigger_id, OperationStatus.IN_PROGRESS)
        if command.kind is CommandKind.CANCEL:
            return Operation(trigger_id, OperationStatus.COMPLETED)
        error = f"the job ended ({status.name}) before the {command.kind.value} was done."
        return Operation(trigger_id, OperationStatus.FAILED, error=error)

    @staticmethod
    def _file(directory: Path, trigger_id: str) -> Path:
        return directory / f"{checked_id(trigger_id, 'trigger id')}.json"

    # -- documents ------------------------------------------------------------------------------

    def document(self, name: str) -> bytes | None:
        if not is_document_name(name):
            return None
        try:
            return (self.documents / f"{name}.json").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_document(self, name: str, data: bytes) -> None:
        if not is_document_name(name):
            raise PenstockError(f"{name!r} is not the name of a document.")
        path = self.documents / f"{name}.json"
        make_private(path.parent)
        replace_file(path, data)

    def remove_document(self, name: str) -> None:
        if is_document_name(name):
            (self.documents / f"{name}.json").unlink(missing_ok=True)

    def document_versions(self) -> dict[str, int]:
        """Returns a number for each document that changes when it is written.

        Those of single checkpoints are left out: there may be thousands, and none of them changes
        without the list of all.
        """
        found: dict[str, int] = {}
        for directory, inner, names in os.walk(self.documents):
            inner[:] = [name for name in inner if name != "checkpoints"]
            for name in names:
                if not name.endswith(".json"):
                    continue
                path = os.path.join(directory, name)
                with contextlib.suppress(FileNotFoundError):
                    key = os.path.relpath(path, self.documents).removesuffix(".json")
                    found[key] = os.stat(path).st_mtime_ns
        return found

    def log_tail(self, max_bytes: int) -> bytes:
        return file_tail(self.log, max_bytes)


def file_tail(path: Path, max_bytes: int) -> bytes:
    """Returns the end of a file; nothing when it is missing."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - max(max_bytes, 0), 0))
            return file.read(max(max_bytes, 0))
    except FileNotFoundError:
        return b""


def read_output(path: Path, cursor: str, max_bytes: int, *, is_complete: bool) -> OutputPiece:
    """Returns what follows a cursor; nothing when there is nothing yet.

    Args:
        path: The file.
        cursor: That of the piece before, or empty for the beginning.
        max_bytes: How much at most.
        is_complete: Whether nothing more will be written, so that the last line needs no end.
    """
    number, _, begin = cursor.partition("-")
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            offset = int(begin or 0) if number == str(found.st_ino) else 0
            if offset > found.st_size:
                moved = _read(_moved(path), offset, max_bytes)
                if moved:
                    return OutputPiece(moved, f"{found.st_ino}-{offset + len(moved)}")
                offset = 0
            file.seek(offset)
            data = file.read(max_bytes)
    except FileNotFoundError:
        return OutputPiece(b"", cursor)
    is_part = len(data) == max_bytes
    if is_part or not is_complete:
        # A line that is longer than a piece comes in pieces.
        data = data[: data.rfind(b"\n") + 1] or (data if is_part else b"")
    return OutputPiece(data, f"{found.st_ino}-{offset + len(data)}")


def bound_file(path: Path, max_bytes: int = MAX_OUTPUT_BYTES) -> None:
    """Moves a file that has grown too long aside, over the one that was moved before.

    Its writer appends and so goes on at the new beginning. What it writes between copy and cut is
    lost, which is why this happens at large sizes only.
    """
    try:
        if path.stat().st_size <= max_bytes:
            return
    except FileNotFoundError:
        return
    older = _moved(path)
    with path.open("rb") as source, older.open("wb") as target:
        os.chmod(older, FILE_MODE)
        while piece := source.read(1024 * 1024):
            target.write(piece)
    os.truncate(path, 0)


def _moved(path: Path) -> Path:
    return path.with_suffix(".1.txt")


def _read(path: Path, offset: int, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(max_bytes)
    except FileNotFoundError:
        return b""
