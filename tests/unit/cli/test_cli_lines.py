"""Output lines, character for character those of Flink 2.3.0's client against the same answers."""

from __future__ import annotations

import pytest
from command_line import penstock
from stub_manager import ID_ENDED, ID_OTHER, ID_RUNNING, StubJob, StubManager

RULE = "-" * 62
WORD_COUNT = f"14.11.2023 22:13:20 : {ID_RUNNING} : word count (RUNNING)"
SAVEPOINT = "/savepoints/savepoint-40dcc6-000000000001"


def test_list_as_json_has_the_records_that_sources_have_not_read(manager: StubManager) -> None:
    figures = [{"pending-records": 3}, {"pending-records": None}, {"pending-records": 4}]
    job = {"vertices": [{"figures": each} for each in figures]}
    manager.answers[f"GET /jobs/{ID_RUNNING}"] = [(200, {}, job)]
    ran = penstock("list", "--json", "-m", manager.url)
    assert [each["pending_records"] for each in ran.document["jobs"]] == [7]


def test_list(manager: StubManager) -> None:
    manager.add(StubJob(ID_OTHER, "later", "CREATED"), StubJob(ID_ENDED, "over", "FAILED"))
    running = [f"{'-' * 18} Running/Restarting Jobs {'-' * 19}", WORD_COUNT, RULE]
    scheduled = [
        f"{'-' * 23} Scheduled Jobs {'-' * 23}",
        f"14.11.2023 22:13:20 : {ID_OTHER} : later (CREATED)",
        RULE,
    ]
    terminated = [
        f"{'-' * 22} Terminated Jobs {'-' * 23}",
        f"14.11.2023 22:13:20 : {ID_ENDED} : over (FAILED)",
        RULE,
    ]
    waiting = ["Waiting for response..."]
    assert penstock("list", "-m", manager.url).lines == waiting + running + scheduled
    assert penstock("list", "-r", "-m", manager.url).lines == waiting + running
    assert penstock("list", "-s", "-m", manager.url).lines == waiting + scheduled
    everything = penstock("list", "-a", "-m", manager.url)
    assert everything.lines == waiting + running + scheduled + terminated
    assert everything.code == 0


def test_list_of_nothing(manager: StubManager) -> None:
    manager.jobs.clear()
    ran = penstock("list", "-m", manager.url)
    assert ran.lines == ["Waiting for response...", "No running jobs.", "No scheduled jobs."]
    assert ran.code == 0


def test_jobs_are_listed_by_their_start(manager: StubManager) -> None:
    manager.add(StubJob(ID_OTHER, "older", "RESTARTING", start_ms=1_600_000_000_000))
    names = [job["name"] for job in penstock("list", "--json", "-m", manager.url).document["jobs"]]
    assert names == ["older", "word count"]


def test_a_name_cannot_steer_the_terminal(manager: StubManager) -> None:
    manager.add(StubJob(ID_RUNNING, "evil\x1b[2J\nname"))
    ran = penstock("list", "-m", manager.url)
    assert f"{ID_RUNNING} : evil\\x1b[2J\\nname (RUNNING)" in ran.out


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (
            f"savepoint {ID_RUNNING}",
            [
                f"Triggering savepoint for job {ID_RUNNING}.",
                "Waiting for response...",
                f"Savepoint completed. Path: {SAVEPOINT}",
                "You can resume your program from this savepoint with the run command.",
            ],
        ),
        (
            "savepoint -d /x/savepoint-1",
            [
                "Disposing savepoint '/x/savepoint-1'.",
                "Waiting for response...",
                "Savepoint '/x/savepoint-1' disposed.",
            ],
        ),
        (
            f"stop {ID_RUNNING}",
            [
                f'Suspending job "{ID_RUNNING}" with a CANONICAL savepoint.',
                f"Triggering stop-with-savepoint for job {ID_RUNNING}.",
                "Waiting for response...",
                f"Savepoint completed. Path: {SAVEPOINT}",
            ],
        ),
        (
            f"stop -d -type native {ID_RUNNING}",
            [
                f'Draining job "{ID_RUNNING}" with a NATIVE savepoint.',
                f"Triggering stop-with-savepoint for job {ID_RUNNING}.",
                "Waiting for response...",
                f"Savepoint completed. Path: {SAVEPOINT}",
            ],
        ),
        (
            f"cancel {ID_RUNNING}",
            [f"Cancelling job {ID_RUNNING}.", f"Cancelled job {ID_RUNNING}."],
        ),
        (
            f"cancel -s {ID_RUNNING}",
            [
                "DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. "
                'Use "stop" instead.',
                f"Cancelling job {ID_RUNNING} with CANONICAL savepoint to default savepoint "
                "directory.",
                f"Cancelled job {ID_RUNNING}. Savepoint stored in {SAVEPOINT}.",
            ],
        ),
        (
            f"cancel -s /y {ID_RUNNING}",
            [
                "DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. "
                'Use "stop" instead.',
                f"Cancelling job {ID_RUNNING} with CANONICAL savepoint to /y.",
                f"Cancelled job {ID_RUNNING}. Savepoint stored in /y{SAVEPOINT[11:]}.",
            ],
        ),
        (
            f"checkpoint {ID_RUNNING}",
            [
                f"Triggering checkpoint for job {ID_RUNNING}.",
                "Waiting for response...",
                f"Checkpoint 7 for job {ID_RUNNING} completed.",
                "You can resume your program from this checkpoint with the run command.",
            ],
        ),
        (
            f"rescale -p 4 {ID_RUNNING}",
            [
                f"Rescaling job {ID_RUNNING} to parallelism 4.",
                "Waiting for response...",
                f"Rescaled job {ID_RUNNING} to parallelism 4, from checkpoint 7.",
            ],
        ),
        (
            f"checkpoint -full {ID_RUNNING}",
            [
                f"Triggering checkpoint for job {ID_RUNNING}.",
                "Waiting for response...",
                f"Checkpoint(FULL) 7 for job {ID_RUNNING} completed.",
                "You can resume your program from this checkpoint with the run command.",
            ],
        ),
    ],
    ids=lambda value: value.replace(ID_RUNNING, "id") if isinstance(value, str) else "",
)
def test_lines(manager: StubManager, command: str, lines: list[str]) -> None:
    ran = penstock(*command.split(), "-m", manager.url)
    assert ran.lines == lines
    assert (ran.code, ran.err) == (0, "")


def test_detached_lines_name_the_trigger_id_that_was_sent(manager: StubManager) -> None:
    ran = penstock("savepoint", "-detached", ID_RUNNING, "-m", manager.url)
    trigger = manager.asked(f"POST /jobs/{ID_RUNNING}/savepoints")[0]["triggerId"]
    assert ran.lines == [
        f"Triggering savepoint in detached mode for job {ID_RUNNING}.",
        f"Successfully trigger manual savepoint, triggerId: {trigger}",
    ]
    ran = penstock("stop", "-detached", ID_RUNNING, "-m", manager.url)
    trigger = manager.asked(f"POST /jobs/{ID_RUNNING}/stop")[0]["triggerId"]
    assert ran.lines == [
        f'Suspending job "{ID_RUNNING}" with a CANONICAL savepoint.',
        f"Triggering stop-with-savepoint in detached mode for job {ID_RUNNING}.",
        f"Successfully trigger stop-with-savepoint in detached mode, triggerId: {trigger}",
    ]


def test_what_is_asked_for(manager: StubManager) -> None:
    """The bodies are Flink's; relative directories mean the user's, not the manager's."""
    here = penstock("savepoint", "--quiet", ID_RUNNING, "relative", "-m", manager.url).out.strip()
    assert here.endswith("/relative/savepoint-40dcc6-000000000001")
    assert here.startswith("/")
    penstock("stop", "-d", "-p", "s3://bucket/x", ID_RUNNING, "-m", manager.url)
    penstock("checkpoint", "-full", ID_RUNNING, "-m", manager.url)
    penstock("savepoint", "-d", "/x/savepoint-1", "-m", manager.url)
    savepoint = manager.asked(f"POST /jobs/{ID_RUNNING}/savepoints")[0]
    stop = manager.asked(f"POST /jobs/{ID_RUNNING}/stop")[0]
    checkpoint = manager.asked(f"POST /jobs/{ID_RUNNING}/checkpoints")[0]
    disposal = manager.asked("POST /savepoint-disposal")[0]
    for body in (savepoint, stop, checkpoint, disposal):
        assert len(body.pop("triggerId")) == 32
    assert savepoint["cancel-job"] is False
    assert savepoint["formatType"] == "CANONICAL"
    assert stop == {"targetDirectory": "s3://bucket/x", "drain": True, "formatType": "CANONICAL"}
    assert checkpoint == {"checkpointType": "FULL"}
    assert disposal == {"savepoint-path": "/x/savepoint-1"}


def test_quiet_prints_the_bare_result(manager: StubManager) -> None:
    quiet = ("--quiet", "-m", manager.url)
    assert penstock("list", *quiet).lines == [ID_RUNNING]
    assert penstock("savepoint", ID_RUNNING, *quiet).lines == [SAVEPOINT]
    assert penstock("stop", ID_RUNNING, *quiet).lines == [SAVEPOINT]
    assert penstock("checkpoint", ID_RUNNING, *quiet).lines == ["7"]
    assert penstock("cancel", ID_RUNNING, *quiet).lines == [ID_RUNNING]


def test_json_is_one_document(manager: StubManager) -> None:
    json = ("--json", "-m", manager.url)
    assert penstock("savepoint", ID_RUNNING, *json).document == {
        "job_id": ID_RUNNING,
        "path": SAVEPOINT,
    }
    assert penstock("checkpoint", ID_RUNNING, *json).document == {
        "job_id": ID_RUNNING,
        "checkpoint_id": 7,
    }
    job = penstock("list", *json).document["jobs"][0]
    assert (job["id"], job["name"], job["state"]) == (ID_RUNNING, "word count", "RUNNING")


def test_cancel_waits_for_the_end(manager: StubManager) -> None:
    manager.statuses[ID_RUNNING] = ["CANCELLING", "CANCELLING", "CANCELED"]
    ran = penstock("cancel", ID_RUNNING, "-m", manager.url)
    assert ran.lines[-1] == f"Cancelled job {ID_RUNNING}."
    assert manager.statuses[ID_RUNNING] == []


def test_cancel_of_what_has_ended_fails(manager: StubManager) -> None:
    manager.statuses[ID_RUNNING] = ["FINISHED"]
    ran = penstock("cancel", ID_RUNNING, "-m", manager.url)
    assert (ran.code, ran.lines) == (1, [f"Cancelling job {ID_RUNNING}."])
    assert "had ended before: it is FINISHED" in ran.err
