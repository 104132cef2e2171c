"""`run`: what is sent, where it goes, how its end is told; without Spark, against the stub."""

from __future__ import annotations

import email
import email.policy
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from command_line import penstock

from penstock.cli.following import progress_line
from penstock.cli.rest_client import RestClient

if TYPE_CHECKING:
    from pathlib import Path

    from stub_manager import StubManager

NEW = "0123456789abcdef0123456789abcdef"
STATUS = f"GET /jobs/{NEW}/status"
RESULT = f"GET /jobs/{NEW}/execution-result"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text("print('hello')\n")
    return path


def states(manager: StubManager, *names: str) -> None:
    manager.answers[STATUS] = [(200, {}, {"status": name}) for name in names]


def submitted(manager: StubManager) -> tuple[dict[str, Any], zipfile.ZipFile]:
    """The document and the package that were sent, read by another implementation."""
    [(headers, body)] = [(h, b) for request, h, b in manager.requests if request == "POST /jobs"]
    head = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
    message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
    parts = {part.get_param("name", header="content-disposition"): part for part in message.walk()}
    package = zipfile.ZipFile(io.BytesIO(parts["package"].get_payload(decode=True)))
    return json.loads(parts["submission"].get_payload(decode=True)), package


def test_detached(manager: StubManager, program: Path) -> None:
    ran = penstock("run", "-d", "-m", manager.url, "app.py", "--input", "x y")
    assert (ran.code, ran.lines) == (0, [f"Job has been submitted with JobID {NEW}"])
    document, package = submitted(manager)
    assert document == {
        "program": "app.py",
        "module": None,
        "arguments": ["--input", "x y"],
        "configuration": {"penstock.job.base-directory": str(program.parent)},
    }
    assert package.read("app.py") == program.read_bytes()


def test_options_become_settings(manager: StubManager, program: Path, tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("X = 1")
    (tmp_path / "savepoint-1").mkdir()
    command = (
        "-p 4 -s savepoint-1 -n -cm claim -pyfs lib.py -pyexec python3 -Dpipeline.name=a=b "
        "-D execution.checkpointing.interval=10s -d"
    )
    ran = penstock("run", *command.split(), "-m", manager.url, "-py", str(program))
    assert ran.code == 0, ran.err
    document, package = submitted(manager)
    assert document["configuration"] == {
        "penstock.job.base-directory": str(tmp_path),
        "parallelism.default": "4",
        "execution.state-recovery.path": str(tmp_path / "savepoint-1"),
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "execution.state-recovery.claim-mode": "CLAIM",
        "python.files": "package:files/0/lib.py",
        "python.executable": "python3",
        "pipeline.name": "a=b",
        "execution.checkpointing.interval": "10s",
    }
    assert package.read("files/0/lib.py") == b"X = 1"


@pytest.mark.parametrize(
    ("option", "is_warned"), [("-n", True), ("-cm=claim", True), ("-d", False)]
)
def test_options_of_a_start_from_a_snapshot_alone_are_warned_of(
    manager: StubManager, program: Path, option: str, is_warned: bool
) -> None:
    ran = penstock("run", "-d", *option.split("="), "-m", manager.url, str(program))
    assert ran.code == 0, ran.err
    assert ("without -s they change nothing" in ran.err) is is_warned


def test_a_module(manager: StubManager, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text("X = 1")
    assert penstock(*f"run -d -m {manager.url} -pym jobs -pyfs jobs.py a".split()).code == 0
    document, package = submitted(manager)
    assert (document["program"], document["module"]) == (None, "jobs")
    assert document["arguments"] == ["a"]
    assert package.namelist() == ["files/0/jobs.py"]


def test_the_end_is_told_in_flinks_lines(manager: StubManager, program: Path) -> None:
    states(manager, "CREATED", "RUNNING", "RESTARTING", "RUNNING", "FINISHED")
    result = {"application-status": "SUCCEEDED", "net-runtime": 1234, "accumulator-results": {}}
    manager.answers[RESULT] = [
        (200, {}, {"status": {"id": "COMPLETED"}, "job-execution-result": result})
    ]
    ran = penstock("run", "-m", manager.url, str(program))
    assert ran.lines == [
        f"Job has been submitted with JobID {NEW}",
        "Program execution finished",
        f"Job with JobID {NEW} has finished.",
        "Job Runtime: 1234 ms",
    ]
    assert ran.code == 0


def printing(manager: StubManager, *texts: str) -> None:
    manager.answers[f"GET /jobs/{NEW}/stdout"] = [
        (200, {}, {"text": text, "next": f"7-{number}"}) for number, text in enumerate(texts)
    ]


def test_what_the_program_prints_is_shown_in_order_up_to_its_end(
    manager: StubManager, program: Path
) -> None:
    """Each look reads until there is nothing more, the one that sees the end included."""
    states(manager, "CREATED", "RUNNING", "FINISHED")
    printing(manager, "", "one\n\x1b[1mtwo\x1b[0m\n", "three\n", "", "after the end", "")
    ran = penstock("run", "-m", manager.url, str(program))
    assert ran.code == 0, ran.err
    first, *rest = ran.lines
    assert first == f"Job has been submitted with JobID {NEW}"
    assert rest[:4] == ["one", "\x1b[1mtwo\x1b[0m", "three", "after the end"]
    assert rest[4] == "Program execution finished", "on a line of its own"
    asked = [request for request, _, _ in manager.requests if "/stdout" in request]
    cursors = [request.partition("from=")[2] for request in asked]
    assert cursors == ["", "", "7-1", "7-2", "7-2", "7-4"]


def test_what_the_program_prints_does_not_get_into_scripts(
    manager: StubManager, program: Path
) -> None:
    for option, printed in (("--quiet", ""), ("-q", ""), ("--json", "one\n")):
        states(manager, "RUNNING", "FINISHED")
        printing(manager, "one\n", "")
        ran = penstock("run", option, "-m", manager.url, str(program))
        assert ran.code == 0
        assert ran.err == printed, option
        assert (ran.document["state"] if option == "--json" else ran.out) in (
            "FINISHED",
            f"{NEW}\n",
        )


def test_a_failed_job_is_exit_1_with_the_users_frames(manager: StubManager, program: Path) -> None:
    states(manager, "FAILED")
    cause = {"class": "ZeroDivisionError", "stack-trace": 'File "app.py", line 3\ndivision by zero'}
    manager.answers[RESULT] = [
        (200, {}, {"job-execution-result": {"net-runtime": 7, "failure-cause": cause}})
    ]
    ran = penstock("run", "-m", manager.url, str(program))
    assert ran.code == 1
    assert ran.err == (
        f"Follow it at http://{manager.url}/#/jobs/{NEW}.\n"
        f'error: Job {NEW} failed.\nFile "app.py", line 3\ndivision by zero\n'
    )
    ran = penstock("run", "--json", "-m", manager.url, str(program))
    assert ran.code == 1
    assert ran.document == {
        "job_id": NEW,
        "state": "FAILED",
        "runtime_ms": 7,
        "failure": cause["stack-trace"],
    }


def test_why_a_job_restarts_is_told_once(manager: StubManager, program: Path) -> None:
    """Else a job that fails again and again only seems to hang."""
    cause = "Traceback\nZeroDivisionError: division by zero"
    for options, times in (((), 1), (("-q",), 0)):
        states(manager, "RUNNING", "RESTARTING", "RESTARTING", "FINISHED")
        manager.answers[f"GET /jobs/{NEW}/exceptions"] = [(200, {}, {"root-exception": cause})]
        ran = penstock("run", *options, "-m", manager.url, str(program))
        assert ran.code == 0
        assert ran.err.count(f"WARNING the job restarts after: {cause}\n") == times
        assert ran.err.count("WARNING") == times


def test_a_program_that_fails_after_its_job_is_exit_1(manager: StubManager, program: Path) -> None:
    states(manager, "FINISHED")
    result = {"net-runtime": 7, "program-failure": 'File "app.py", line 9\na second job'}
    manager.answers[RESULT] = [(200, {}, {"job-execution-result": result})]
    ran = penstock("run", "-m", manager.url, str(program))
    assert ran.code == 1
    assert ran.err.endswith(
        f"error: Job {NEW} has finished, and its program failed.\n"
        'File "app.py", line 9\na second job\n'
    )


def test_a_module_that_did_not_travel_is_pointed_at(
    manager: StubManager, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "rates.py").write_text("")
    states(manager, "FAILED")
    cause = {"class": "X", "stack-trace": "ModuleNotFoundError: No module named 'rates'"}
    manager.answers[RESULT] = [(200, {}, {"job-execution-result": {"failure-cause": cause}})]
    ran = penstock("run", "-m", manager.url, "app.py")
    assert ran.err.endswith(
        "rates.py did not travel with the program; ship it with -pyfs rates.py.\n"
    )
    (tmp_path / "rates.py").unlink()
    assert "-pyfs" not in penstock("run", "-m", manager.url, "app.py").err


def test_a_cancelled_job_is_exit_1(manager: StubManager, program: Path) -> None:
    states(manager, "RUNNING", "CANCELED")
    ran = penstock("run", "-m", manager.url, str(program))
    assert ran.code == 1
    assert ran.err.endswith(f"error: Job {NEW} was cancelled.\n")


@pytest.mark.parametrize(("option", "is_cancelled"), [((), False), (("-sae",), True)])
def test_an_interrupt_leaves_the_job_running_unless_sae(
    manager: StubManager,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: tuple[str, ...],
    is_cancelled: bool,
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    real = RestClient.__init__

    def with_interrupt(self: RestClient, *arguments: Any, **more: Any) -> None:
        real(self, *arguments, **more, sleep=interrupt)

    monkeypatch.setattr(RestClient, "__init__", with_interrupt)
    ran = penstock("run", *option, "-m", manager.url, str(program))
    assert ran.code == 130
    assert (manager.jobs[NEW].state == "CANCELED") is is_cancelled
    expected = f"Cancelled job {NEW}." if is_cancelled else f"Job {NEW} goes on."
    assert expected in ran.err


def test_without_a_manager_both_ways_are_named(program: Path) -> None:
    ran = penstock("run", "-m", "127.0.0.1:1", str(program))
    assert ran.code == 4
    assert "`penstock jobmanager`" in ran.err
    assert "`penstock run -t local`" in ran.err


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("run nowhere.py", 1, "The program nowhere.py does not exist."),
        ("run .", 1, "The program . is no file."),
        ("run -d -t local app.py", 2, "-d and -t local exclude each other"),
        ("run -cm mine app.py", 2, '-cm "mine" is not a claim mode'),
        ("run -p 0 app.py", 2, "The parallelism was set to 0"),
        ("run -p four app.py", 2, "'four' is not a valid integer"),
        ("run -d -pyfs nowhere.py app.py", 1, "nowhere.py', which does not exist."),
    ],
)
def test_what_cannot_be_run(
    manager: StubManager, program: Path, command: str, code: int, text: str
) -> None:
    action, *rest = command.split()
    ran = penstock(action, "-m", manager.url, *rest)
    assert ran.code == code
    assert text in ran.out + ran.err
    assert [request for request, _, _ in manager.requests if request.startswith("POST")] == []


def test_progress_in_a_line() -> None:
    vertex = {
        "id": "a",
        "metrics": {"read-records": 0, "write-records": 1_234_567},
        "figures": {"records-in-per-second": 0.0, "records-out-per-second": 105_000.4},
    }
    downstream = vertex | {"id": "b"}
    job = {
        "duration": 65_000,
        "now": 1_000_000,
        "last-checkpoint-timestamp": 997_000,
        "epoch": 12,
        "restarts": 2,
        "vertices": [vertex, downstream],
        "plan": {"nodes": [{"id": "a", "inputs": []}, {"id": "b", "inputs": [{"id": "a"}]}]},
    }
    assert progress_line("RUNNING", job) == (
        "RUNNING · 1 min 5 s · epoch 12 · 1,234,567 records (105,000/s) · "
        "checkpoint 3 s ago · 2 restarts"
    )
    assert progress_line("CREATED", {}) == "CREATED"
