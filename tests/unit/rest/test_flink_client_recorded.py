"""What Flink 2.3.0's own command line sent, and what it must be answered, request by request.

Recorded between `flink list`, `savepoint`, `stop`, `checkpoint`, `cancel` and a running job; the
client printed its usual lines and exited with 0. `tests/e2e/test_rest_flink_client.py` runs the
client itself where it is installed.
"""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest
from served import TOKEN, served
from stored_jobs_dispatcher import JOB_ID, TRIGGER_ID, MemoryDispatcher, job_record

from penstock.core.job import JobStatus
from penstock.jobmanager.job_records import Command, CommandKind, Operation, OperationStatus

# It names no user agent, and sends a body with every request. The token comes from its
# environment: FLINK_REST_CLIENT_HEADERS="Authorization:Bearer …".
HEADERS = {
    "connection": "close",
    "content-type": "application/json; charset=UTF-8",
    "Authorization": f"Bearer {TOKEN}",
}
JOB = f"/v1/jobs/{JOB_ID}"
DONE = Operation(TRIGGER_ID, OperationStatus.COMPLETED, location="/s/savepoint-40dcc6-1")

Pair = tuple[str, str, str, int, Any]
RECORDED: dict[str, tuple[Operation | None, list[Pair], list[Command]]] = {
    "savepoint": (
        DONE,
        [
            (
                "POST",
                f"{JOB}/savepoints",
                '{"target-directory":null,"cancel-job":false,"formatType":"CANONICAL",'
                '"triggerId":null}',
                202,
                {"request-id": TRIGGER_ID},
            ),
            (
                "GET",
                f"{JOB}/savepoints/{TRIGGER_ID}",
                "{}",
                200,
                {"status": {"id": "COMPLETED"}, "operation": {"location": DONE.location}},
            ),
        ],
        [Command(CommandKind.SAVEPOINT)],
    ),
    "stop -drain": (
        DONE,
        [
            (
                "POST",
                f"{JOB}/stop",
                '{"targetDirectory":"/s","drain":true,"formatType":"NATIVE","triggerId":null}',
                202,
                {"request-id": TRIGGER_ID},
            ),
            (
                "GET",
                f"{JOB}/savepoints/{TRIGGER_ID}",
                "{}",
                200,
                {"status": {"id": "COMPLETED"}, "operation": {"location": DONE.location}},
            ),
        ],
        [Command(CommandKind.STOP, directory="/s", drain=True, native=True)],
    ),
    "checkpoint -full": (
        Operation(TRIGGER_ID, OperationStatus.COMPLETED, checkpoint_id=33),
        [
            (
                "POST",
                f"{JOB}/checkpoints",
                '{"checkpointType":"FULL","triggerId":null}',
                202,
                {"request-id": TRIGGER_ID},
            ),
            (
                "GET",
                f"{JOB}/checkpoints/{TRIGGER_ID}",
                "{}",
                200,
                {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 33}},
            ),
        ],
        [Command(CommandKind.CHECKPOINT, full=True)],
    ),
    "a savepoint that fails": (
        Operation(TRIGGER_ID, OperationStatus.FAILED, error="cannot create /s: it is full"),
        [
            (
                "POST",
                f"{JOB}/savepoints",
                '{"target-directory":"/s","cancel-job":false,"formatType":"CANONICAL",'
                '"triggerId":null}',
                202,
                {"request-id": TRIGGER_ID},
            ),
            (
                "GET",
                f"{JOB}/savepoints/{TRIGGER_ID}",
                "{}",
                500,
                {"errors": ["cannot create /s: it is full"]},
            ),
        ],
        [Command(CommandKind.SAVEPOINT, directory="/s")],
    ),
    "cancel": (
        None,
        [("PATCH", f"{JOB}?mode=cancel", "{}", 202, {})],
        [Command(CommandKind.CANCEL)],
    ),
}


def send(port: int, method: str, path: str, body: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("localhost", port, timeout=200)
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in (HEADERS | {"content-length": str(len(body))}).items():
        connection.putheader(name, value)
    connection.endheaders(body.encode())
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content


@pytest.mark.parametrize("verb", RECORDED)
def test_recorded(verb: str) -> None:
    outcome, pairs, commands = RECORDED[verb]
    dispatcher = MemoryDispatcher()
    dispatcher.add(job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000))
    with served(dispatcher) as service:
        for method, path, body, status, expected in pairs:
            assert send(service.port, method, path, body) == (status, expected)
            if outcome is not None:
                dispatcher.operations[TRIGGER_ID] = outcome
    assert [each[2] for each in dispatcher.commands] == commands


def test_while_an_operation_runs_there_is_no_result() -> None:
    """The client goes on asking as long as it reads exactly this."""
    dispatcher = MemoryDispatcher()
    dispatcher.add(job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000))
    with served(dispatcher) as service:
        send(service.port, "POST", f"{JOB}/savepoints", "{}")
        found = send(service.port, "GET", f"{JOB}/savepoints/{TRIGGER_ID}", "{}")
    assert found == (200, {"status": {"id": "IN_PROGRESS"}, "operation": None})


def test_the_list_has_every_field_or_the_client_retries_in_silence() -> None:
    dispatcher = MemoryDispatcher()
    dispatcher.add(job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000, changed_ms=2_000))
    with served(dispatcher) as service:
        status, found = send(service.port, "GET", "/v1/jobs/overview", "{}")
    (row,) = found["jobs"]
    assert status == 200
    assert {name: type(value) for name, value in row.items() if name not in ("restarts",)} == {
        "jid": str,
        "name": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "state": str,
        "last-modification": int,
        "schedulerType": str,
        "job-type": str,
        "pending-operators": int,
        "tasks": dict,
        "last-checkpoint-timestamp": int,
    }
    assert all(type(count) is int for count in row["tasks"].values())
