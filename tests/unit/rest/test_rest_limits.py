"""What strangers may try: paths that climb, bodies without end, clients that dawdle."""

from __future__ import annotations

import io
import socket
import zipfile
from typing import TYPE_CHECKING

import pytest
from served import PAGE, TOKEN, Service, ask, served
from stored_jobs_dispatcher import JOB_ID, VERTEX_ID, MemoryDispatcher, job_record

from penstock.core.errors import ProgramError
from penstock.core.job import JobStatus
from penstock.job import documents
from penstock.job.package import check_zip
from penstock.rest import access, server
from penstock.rest.routes_submission import read_submission

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIMBS = (
    "..",
    "../",
    "../../etc/passwd",
    "..\\..\\etc\\passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "%2e%2e%2f",
    "%2e%2e/%2e%2e/etc/passwd",
    "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd",
    "..%252f..%252fetc%252fpasswd",
    "%252e%252e%252f",
    "%252e%252e%252fetc%252fpasswd",
    "..%c0%af..%c0%afetc%c0%afpasswd",
    "%c0%ae%c0%ae/",
    "..%ef%bc%8fetc",
    "..%5c..%5cwindows",
    "..%255c..%255cwindows",
    "....//....//etc/passwd",
    "..;/..;/etc/passwd",
    "..%00/",
    "%00",
    "%00.log",
    "jobmanager.log%00",
    "jobmanager.log%00.txt",
    "jobmanager.log/..",
    "jobmanager.log/../../x",
    "./jobmanager.log/./..",
    "/etc/passwd",
    "//etc/passwd",
    "%2fetc%2fpasswd",
    "%2f%2fetc%2fpasswd",
    "file:///etc/passwd",
    "file:%2f%2f%2fetc%2fpasswd",
    "C:%5cwindows",
    "C:/windows",
    "%5c%5cserver%5cshare",
    "~/.ssh/id_rsa",
    "~root",
    "$HOME",
    "%24%7BHOME%7D",
    "..%0a",
    "..%0d%0aX:%20y",
    "job-../../x.log",
    "job-%2e%2e%2fx.log",
    "job-" + "0" * 32 + ".log",
    "job-" + JOB_ID + ".log/..",
    "job-" + JOB_ID + ".log%2f..",
    "job-" + JOB_ID.upper() + ".log",
    JOB_ID + "/../../..",
    JOB_ID + "%2f..",
    JOB_ID[:-1],
    JOB_ID + "0",
    JOB_ID.upper(),
    JOB_ID + "%0a",
    JOB_ID + "%20",
    "0x" + JOB_ID[2:],
    "-1",
    "1e3",
    "%EF%BC%91",
    "a" * 300,
    "submission.json",
    "documents",
    ".",
    "%2e",
    "*",
    "?",
    "static/../app.py",
    "modules/..%2f..%2fapp.py",
    "__init__.py",
)
PLACES = (
    "/jobs/{}",
    "/v1/jobs/{}",
    "/jobs/{}/checkpoints",
    "/jobs/{}/log",
    "/jobs/{}/stdout",
    f"/jobs/{JOB_ID}/stdout?from={{}}",
    "/jobs/{}/plan.svg",
    f"/jobs/{JOB_ID}/vertices/{{}}",
    f"/jobs/{JOB_ID}/vertices/{{}}/metrics",
    f"/jobs/{JOB_ID}/savepoints/{{}}",
    f"/jobs/{JOB_ID}/checkpoints/{{}}",
    f"/jobs/{JOB_ID}/checkpoints/details/{{}}",
    f"/jobs/{JOB_ID}/checkpoints/details/1/subtasks/{{}}",
    "/savepoint-disposal/{}",
    "/jobmanager/logs/{}",
    "/{}",
    "/modules/{}",
)
ALLOWED = {
    value.format(vertex=VERTEX_ID, checkpoint=1)
    for name, value in vars(documents).items()
    if name.isupper() and isinstance(value, str)
}


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[MemoryDispatcher, Service]]:
    dispatcher = MemoryDispatcher()
    dispatcher.add(job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000))
    with served(dispatcher) as service:
        yield dispatcher, service


def test_there_are_enough_of_them() -> None:
    assert len(set(CLIMBS)) >= 60


@pytest.mark.parametrize("place", PLACES)
def test_no_name_of_a_client_reaches_a_path(
    shared: tuple[MemoryDispatcher, Service], place: str
) -> None:
    """What answers 200 has the same answer as a harmless path: nothing was read for the name."""
    dispatcher, service = shared
    dispatcher.asked.clear()
    harmless = {
        service.get(path).body
        for path in ("/", "/jobs", "/jobs/overview", "/jobmanager/logs", f"/jobs/{JOB_ID}/status")
    }
    for climb in CLIMBS:
        answer = ask(service.port, "GET", place.format(climb), headers=PAGE)
        assert answer.status in (200, 400, 404), (climb, answer.status)
        assert b"root:" not in answer.body
        if answer.status == 200:
            # `.` and `?` leave the page itself, or a list.
            assert climb in (".", "%2e", "?", "./jobmanager.log/./.."), climb
            assert answer.body in harmless, climb
        else:
            assert answer.errors
    # Documents are asked for by names of ours alone, with ids that were checked.
    assert set(dispatcher.asked) <= ALLOWED, set(dispatcher.asked) - ALLOWED


# -- sizes and pace -------------------------------------------------------------------------------


def test_bodies_are_bounded_whether_they_say_so_or_not() -> None:
    dispatcher = MemoryDispatcher()
    dispatcher.add(job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000))
    path = f"/jobs/{JOB_ID}/savepoints"
    with served(dispatcher, max_body_bytes=1_000, max_package_bytes=5_000) as service:
        fitting = b'{"target-directory": "/s"' + b" " * 900 + b"}"
        assert ask(service.port, "POST", path, fitting).status == 202
        assert ask(service.port, "POST", path, b" " * 1_001).status == 413
        # A length that is only claimed is refused before a byte is read.
        claimed = PAGE | {"Content-Length": "999999999999"}
        assert ask(service.port, "POST", path, b"{}", claimed).status == 413
        chunks = b"".join(b"64\r\n%b\r\n" % (b" " * 100) for _ in range(11)) + b"0\r\n\r\n"
        chunked = PAGE | {"Transfer-Encoding": "chunked"}
        assert ask(service.port, "POST", path, chunks, chunked).status == 413
        trusted = PAGE | {"Authorization": f"Bearer {TOKEN}"}
        assert ask(service.port, "POST", "/jobs", b"x" * 5_001, trusted).status == 413
        assert ask(service.port, "POST", "/jobs", b"x" * 5_000, trusted).status == 400
        assert dispatcher.submitted == []


def test_headers_are_bounded(shared: tuple[MemoryDispatcher, Service]) -> None:
    _, service = shared
    many = PAGE | {f"X-{number}": "1" for number in range(120)}
    assert ask(service.port, "GET", "/jobs", headers=many).status == 431
    assert ask(service.port, "GET", "/" + "a" * 3_000, headers=PAGE).status == 431
    long = PAGE | {"X-Long": "a" * 17_000}
    assert ask(service.port, "GET", "/jobs", headers=long).status == 431


def sent_slowly(port: int, first: bytes) -> bytes:
    """Sends the beginning of a request, then nothing; returns what the server says."""
    with socket.create_connection(("127.0.0.1", port), timeout=200) as connection:
        connection.sendall(first)
        answer = b""
        while part := connection.recv(4096):
            answer += part
        return answer


def test_clients_that_dawdle_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_TIMEOUT_S", 1.0)
    monkeypatch.setattr(access, "BODY_TIMEOUT_S", 1.0)
    dispatcher = MemoryDispatcher()
    dispatcher.add(job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000))
    with served(dispatcher) as service:
        assert sent_slowly(service.port, b"") == b""
        assert sent_slowly(service.port, b"GET /jobs HTTP/1.1\r\nHost: local") == b""
        head = (
            f"POST /jobs/{JOB_ID}/stop HTTP/1.1\r\nHost: localhost\r\nX-Requested-With: x\r\n"
            f"Authorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
        )
        assert sent_slowly(service.port, head.encode()).startswith(b"HTTP/1.1 408 ")
        # Others are served meanwhile, and nobody was asked for anything.
        assert service.get("/jobs").status == 200
        assert dispatcher.commands == []


# -- packages -------------------------------------------------------------------------------------


def packed(*names: str, mode: int = 0, content: bytes = b"x") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            member = zipfile.ZipInfo("x" * len(name))
            member.filename = name
            member.external_attr = mode << 16
            archive.writestr(member, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "../x.py",
        "a/../../x.py",
        "a/..",
        "..",
        "/x.py",
        "//x.py",
        "a//x.py",
        "./x.py",
        "a/./x.py",
        "C:/x.py",
        "C:x.py",
        "..\\x.py",
        "a\\..\\x.py",
        "a\nb.py",
        "a\x7f/../b",
        "\x01",
    ],
)
def test_a_package_with_names_that_climb_is_refused(name: str) -> None:
    with pytest.raises(ProgramError, match="cannot be unpacked safely"):
        check_zip(packed("main.py", name))


@pytest.mark.parametrize("mode", [0o120777, 0o010644, 0o020644, 0o060644, 0o140644])
def test_a_package_holds_files_and_nothing_else(mode: int) -> None:
    with pytest.raises(ProgramError, match="nothing is a link"):
        check_zip(packed("main.py", mode=mode))


def test_an_ordinary_package_is_taken() -> None:
    names = ("main.py", "files/0/lib/a.py", "files/1/ä b.py", "lib/")
    assert check_zip(packed(*names, mode=0o100644)) == set(names)


def test_a_package_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.job.package.MAX_MEMBERS", 3)
    monkeypatch.setattr("penstock.job.package.MAX_UNPACKED_BYTES", 100)
    assert check_zip(packed("a", "b", "c"))
    with pytest.raises(ProgramError, match="more than 3 files"):
        check_zip(packed("a", "b", "c", "d"))
    with pytest.raises(ProgramError, match="more than 100 bytes"):
        check_zip(packed("a", "b", content=b"0" * 51))


FORM = (
    b'--b\r\nContent-Disposition: form-data; name="submission"; filename="s.json"\r\n'
    b"Content-Type: application/json\r\n\r\n%b\r\n"
    b'--b\r\nContent-Disposition: form-data; name="package"; filename="p.zip"\r\n'
    b"Content-Type: application/zip\r\n\r\n%b\r\n--b--\r\n"
)
FORM_TYPE = "multipart/form-data; boundary=b"


def test_a_form_is_read_as_the_command_line_sends_it() -> None:
    package = packed("main.py", content=b"\r\n--not the boundary\r\n")
    request = b'{"program": "main.py", "module": null, "arguments": ["a"], "configuration": {}}'
    found, sent = read_submission(io.BytesIO(FORM % (request, package)), FORM_TYPE)
    assert (found.program, found.module, found.arguments) == ("main.py", None, ("a",))
    assert sent == package


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        (b'{"program": "other.py"}', "holds no 'other.py'"),
        (b'{"program": "../main.py"}', "without a directory"),
        (b'{"program": "main.py", "module": "a"}', "either a 'program' or a 'module'"),
        (b"{}", "either a 'program' or a 'module'"),
        (b'{"module": "a b"}', "dotted name"),
        (b'{"module": "../a"}', "dotted name"),
        (b'{"program": 3}', "name of a file"),
        (b'{"program": "main.py", "arguments": "x"}', "list of"),
        (b'{"program": "main.py", "arguments": [1]}', "list of"),
        (b'{"program": "main.py", "configuration": {"a": 1}}', "texts as keys and values"),
        (b'{"program": "main.py", "configuration": []}', ""),
        (b"[]", "not a JSON object"),
        (b"nonsense", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_submission_is_checked(request_text: bytes, problem: str) -> None:
    body = io.BytesIO(FORM % (request_text, packed("main.py")))
    if not problem:
        assert read_submission(body, FORM_TYPE)[0].configuration == {}
        return
    with pytest.raises(ProgramError, match=problem):
        read_submission(body, FORM_TYPE)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FORM_TYPE),
        (b"x", "multipart/form-data"),
        (FORM.replace(b"package", b"other") % (b"{}", b""), FORM_TYPE),
        (b"--b\r\nno name\r\n\r\nx\r\n--b--", FORM_TYPE),
        (FORM.replace(b"--b--", b"") % (b"{}", b""), FORM_TYPE),
        (FORM.replace(b'"package"', b'"submission"') % (b"{}", b""), FORM_TYPE),
        (b'{"module": "a", "package": "***"}', "application/json"),
        (b'{"module": "a", "package": "YWJj"}', "application/json"),
        (b"PK", "application/zip"),
    ],
)
def test_a_damaged_submission_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(ProgramError):
        read_submission(io.BytesIO(body), kind)
