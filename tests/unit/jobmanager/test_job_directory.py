"""What job manager and driver tell each other through files, and what never becomes a path."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from penstock.core.errors import PenstockError
from penstock.core.job import JobStatus
from penstock.files.private import replace_file
from penstock.jobmanager.job_directory import JobDirectory, file_tail
from penstock.jobmanager.job_records import (
    Command,
    CommandKind,
    JobRecord,
    Operation,
    OperationStatus,
    RefusedError,
)

if TYPE_CHECKING:
    from pathlib import Path

JOB_ID = "0123456789abcdef0123456789abcdef"
TRIGGER = "f" * 32


@pytest.fixture
def directory(tmp_path: Path) -> JobDirectory:
    made = JobDirectory(tmp_path / "jobs" / JOB_ID)
    made.create()
    return made


def test_what_is_written_is_read(directory: JobDirectory) -> None:
    assert directory.job.read() is None
    record = JobRecord(
        job_id=JOB_ID, name="name", submitted_ms=5, timestamps={JobStatus.CREATED: 7}
    )
    directory.job.write(record)
    assert directory.job.read() == record
    directory.job.write(JobRecord(job_id=JOB_ID, submitted_ms=6))
    found = directory.job.read()
    assert found is not None
    assert found.submitted_ms == 6


def test_files_are_the_users_alone(directory: JobDirectory) -> None:
    directory.job.write(JobRecord(job_id=JOB_ID, submitted_ms=5))
    directory.write_document("vertices/abc", b"{}")
    for path in (directory.path, directory.documents, directory.documents / "vertices"):
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (directory.path / "job.json", directory.documents / "vertices" / "abc.json"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_commands_are_found_in_their_order_and_answered(directory: JobDirectory) -> None:
    for number in range(5):
        directory.command(f"{number:032x}").write(Command(CommandKind.SAVEPOINT, attempt=1))
    (directory.commands / "notes.txt").write_text("not a command")
    assert directory.command_ids() == [f"{number:032x}" for number in range(5)]
    assert directory.result(f"{3:032x}").read() is None
    done = Operation(f"{3:032x}", OperationStatus.COMPLETED, "x")
    directory.result(done.trigger_id).write(done)
    assert directory.result(f"{3:032x}").read() == done
    directory.forget_command(f"{3:032x}")
    assert directory.command(f"{3:032x}").read() is None
    assert directory.result(f"{3:032x}").read() is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../job",
        "vertices/..",
        "vertices/../../job",
        "/etc/passwd",
        "vertices//x",
        "vertices/a/b/c",
        "job.json",
        "JOB",
        "a\0b",
        "a\nb",
        "a" * 65,
        "vertices/%2e%2e",
        "vertices\\x",
    ],
)
def test_a_document_name_never_leads_elsewhere(directory: JobDirectory, name: str) -> None:
    (directory.path / "secret.json").write_text("{}")
    assert directory.document(name) is None
    directory.remove_document(name)
    with pytest.raises(PenstockError, match="not the name of a document"):
        directory.write_document(name, b"{}")


@pytest.mark.parametrize(
    "trigger_id", ["", "x", "../" * 10, "F" * 32, "f" * 31, "f" * 33, "f" * 32 + "\n", "/" * 32]
)
def test_a_trigger_id_never_leads_elsewhere(directory: JobDirectory, trigger_id: str) -> None:
    with pytest.raises(RefusedError, match="32 hexadecimal digits"):
        directory.command(trigger_id).read()
    with pytest.raises(RefusedError):
        done = Operation(trigger_id, OperationStatus.COMPLETED)
        directory.result(trigger_id).write(done)


def test_documents_change_their_numbers_when_they_are_written(directory: JobDirectory) -> None:
    directory.write_document("job", b"1")
    directory.write_document("vertices/abc", b"1")
    # There may be thousands of these, and none changes without the list of all.
    directory.write_document("checkpoints/7", b"1")
    before = directory.document_versions()
    assert set(before) == {"job", "vertices/abc"}
    directory.write_document("job", b"2")
    after = directory.document_versions()
    assert after["job"] != before["job"]
    assert after["vertices/abc"] == before["vertices/abc"]
    assert directory.document("job") == b"2"
    directory.remove_document("job")
    assert directory.document("job") is None


def test_a_damaged_record_is_named(directory: JobDirectory) -> None:
    (directory.path / "job.json").write_text('{"job_id": ')
    with pytest.raises(PenstockError, match=r"job\.json is damaged"):
        directory.job.read()


def test_a_reader_sees_whole_files_only(tmp_path: Path) -> None:
    """A writer replaces a file all the time; every read is one of the contents, whole."""
    path = tmp_path / "file"
    contents = [bytes([65 + number]) * 20_000 for number in range(3)]
    replace_file(path, contents[0])
    is_over = threading.Event()

    def write() -> None:
        for number in range(300):
            replace_file(path, contents[number % 3])
        is_over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not is_over.is_set():
        assert path.read_bytes() in contents
    writer.join()
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_end_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert file_tail(path, 10) == b""
    path.write_bytes(b"0123456789")
    assert file_tail(path, 4) == b"6789"
    assert file_tail(path, 100) == b"0123456789"
    assert file_tail(path, 0) == b""
