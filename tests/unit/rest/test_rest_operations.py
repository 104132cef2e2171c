"""What can be asked for, over a dispatcher in memory, behind the real server."""

from __future__ import annotations

import logging

import pytest
from filled_dispatcher import OTHER_ID, filled
from served import PAGE, TOKEN, Service, ask, served
from stored_jobs_dispatcher import JOB_ID, TRIGGER_ID, MemoryDispatcher

from penstock.jobmanager.job_records import Command, CommandKind, Operation, OperationStatus

FLINK = {
    "connection": "close",
    "content-type": "application/json; charset=UTF-8",
    "Authorization": PAGE["Authorization"],
}


def test_a_savepoint_is_triggered_and_polled(
    service: Service, dispatcher: MemoryDispatcher
) -> None:
    body = {"target-directory": "/s", "formatType": "NATIVE", "triggerId": TRIGGER_ID, "new": 1}
    answer = service.post(f"/jobs/{JOB_ID}/savepoints", body)
    assert (answer.status, answer.json) == (202, {"request-id": TRIGGER_ID})
    assert dispatcher.commands == [
        (JOB_ID, TRIGGER_ID, Command(CommandKind.SAVEPOINT, directory="/s", native=True))
    ]
    # The same id is the same operation.
    assert service.post(f"/jobs/{JOB_ID}/savepoints", body).status == 202
    assert len(dispatcher.commands) == 1
    path = f"/jobs/{JOB_ID}/savepoints/{TRIGGER_ID}"
    assert service.get(path).json["status"] == {"id": "IN_PROGRESS"}
    done = Operation(TRIGGER_ID, OperationStatus.COMPLETED, location="/s/savepoint-1")
    dispatcher.operations[TRIGGER_ID] = done
    assert service.get(path).json == {
        "status": {"id": "COMPLETED"},
        "operation": {"location": "/s/savepoint-1"},
    }


def test_a_failure_is_told_to_each_client_as_it_understands(
    service: Service, dispatcher: MemoryDispatcher
) -> None:
    failed = Operation(TRIGGER_ID, OperationStatus.FAILED, error="s3://k:pw@b: disk full")
    dispatcher.operations[TRIGGER_ID] = failed
    path = f"/v1/jobs/{JOB_ID}/savepoints/{TRIGGER_ID}"
    ours = service.get(path)
    assert ours.status == 200
    assert ours.json["operation"]["failure-cause"]["stack-trace"] == "s3://******@b: disk full"
    flinks = ask(service.port, "GET", path, {}, FLINK)
    assert (flinks.status, flinks.json) == (500, {"errors": ["s3://******@b: disk full"]})


@pytest.mark.parametrize(
    ("path", "body", "command"),
    [
        (
            "stop",
            {"targetDirectory": "/s", "drain": True},
            Command(CommandKind.STOP, directory="/s", drain=True),
        ),
        ("stop", {}, Command(CommandKind.STOP)),
        ("checkpoints", {"checkpointType": "FULL"}, Command(CommandKind.CHECKPOINT, full=True)),
        ("checkpoints", {"checkpointType": "CONFIGURED"}, Command(CommandKind.CHECKPOINT)),
        ("savepoints", {"cancel-job": True}, Command(CommandKind.SAVEPOINT, cancel_job=True)),
        (
            "savepoints",
            {"target-directory": None, "cancel-job": False, "formatType": None, "triggerId": None},
            Command(CommandKind.SAVEPOINT),
        ),
    ],
)
def test_bodies_become_commands(
    service: Service,
    dispatcher: MemoryDispatcher,
    path: str,
    body: dict[str, object],
    command: Command,
) -> None:
    assert service.post(f"/v1/jobs/{JOB_ID}/{path}", body).status == 202
    assert [each[2] for each in dispatcher.commands] == [command]


def test_a_checkpoint_answers_with_its_number(
    service: Service, dispatcher: MemoryDispatcher
) -> None:
    done = Operation(TRIGGER_ID, OperationStatus.COMPLETED, checkpoint_id=33)
    dispatcher.operations[TRIGGER_ID] = done
    found = service.get(f"/jobs/{JOB_ID}/checkpoints/{TRIGGER_ID}").json
    assert found["operation"] == {"checkpointId": 33}


def test_a_job_is_rescaled(service: Service, dispatcher: MemoryDispatcher) -> None:
    path = f"/v1/jobs/{JOB_ID}/rescaling"
    answer = ask(service.port, "PATCH", f"{path}?parallelism=4", {"triggerId": TRIGGER_ID})
    assert (answer.status, answer.json) == (202, {"request-id": TRIGGER_ID})
    assert dispatcher.commands == [
        (JOB_ID, TRIGGER_ID, Command(CommandKind.RESCALE, parallelism=4))
    ]
    done = Operation(TRIGGER_ID, OperationStatus.COMPLETED, checkpoint_id=33)
    dispatcher.operations[TRIGGER_ID] = done
    assert service.get(f"{path}/{TRIGGER_ID}").json["operation"] == {"checkpointId": 33}
    for wrong in ("0", "-1", "many", ""):
        assert ask(service.port, "PATCH", f"{path}?parallelism={wrong}", {}).status == 400


def test_vertices_are_rescaled(service: Service, dispatcher: MemoryDispatcher) -> None:
    path = f"/jobs/{JOB_ID}/resource-requirements"
    found = service.get(path).json
    vertices = {
        each["id"]: each["parallelism"] for each in service.get(f"/jobs/{JOB_ID}").json["vertices"]
    }
    assert found == {
        vertex: {"parallelism": {"lowerBound": 1, "upperBound": parallelism}}
        for vertex, parallelism in vertices.items()
    }
    [vertex, *_] = vertices
    wanted = {vertex: {"parallelism": {"lowerBound": 1, "upperBound": 5}}}
    assert ask(service.port, "PUT", path, wanted).status == 202
    assert dispatcher.commands[-1][2] == Command(CommandKind.RESCALE, vertices={vertex: 5})
    for wrong in ({}, {vertex: {"parallelism": {"lowerBound": 1, "upperBound": 0}}}):
        assert ask(service.port, "PUT", path, wrong).status == 400
    answer = ask(
        service.port, "PUT", path, {vertex: {"parallelism": {"lowerBound": 4, "upperBound": 2}}}
    )
    assert answer.status == 400
    assert b"lowerBound 4 is above upperBound 2" in answer.body
    assert len(dispatcher.commands) == 1


def test_a_job_is_cancelled_once(service: Service, dispatcher: MemoryDispatcher) -> None:
    answer = ask(service.port, "PATCH", f"/jobs/{JOB_ID}?mode=cancel", {})
    assert (answer.status, answer.json) == (202, {})
    assert [each[2].kind for each in dispatcher.commands] == [CommandKind.CANCEL]
    assert ask(service.port, "PATCH", f"/jobs/{OTHER_ID}", {}).status == 409
    assert ask(service.port, "PATCH", f"/jobs/{JOB_ID}?mode=stop", {}).status == 400


def test_a_savepoint_is_disposed_of(service: Service, dispatcher: MemoryDispatcher) -> None:
    answer = service.post("/v1/savepoint-disposal", {"savepoint-path": "/s/savepoint-1"})
    assert answer.status == 202
    assert dispatcher.disposed == ["/s/savepoint-1"]
    found = service.get(f"/savepoint-disposal/{answer.json['request-id']}").json
    assert found == {"status": {"id": "COMPLETED"}, "operation": {}}


@pytest.mark.parametrize(
    "body",
    [
        {"formatType": "PICKLE"},
        {"triggerId": "../../etc/passwd"},
        {"triggerId": "0" * 31},
        {"triggerId": "0" * 33},
        {"triggerId": "A" * 32},
        {"target-directory": ""},
        {"target-directory": "x" * 5_000},
        {"target-directory": "/s\0/etc"},
        {"target-directory": "/s\n"},
        {"target-directory": ["/s"]},
        {"cancel-job": "perhaps"},
        [],
        "text",
        b"not json",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe",
        b'{"target-directory": NaN}',
    ],
)
def test_what_is_malformed_is_refused_with_errors(
    service: Service, dispatcher: MemoryDispatcher, body: object
) -> None:
    answer = service.post(f"/jobs/{JOB_ID}/savepoints", body)
    assert answer.status == 400, answer.body
    assert answer.errors
    assert dispatcher.commands == []


def test_switches_turn_routes_off() -> None:
    dispatcher = filled()
    with served(dispatcher, cancel_enabled=False, savepoint_roots=("/data/sp",)) as service:
        for method, path, body in (
            ("PATCH", f"/jobs/{JOB_ID}", {}),
            ("POST", f"/jobs/{JOB_ID}/stop", {}),
            ("POST", f"/jobs/{JOB_ID}/savepoints", {"cancel-job": True}),
            ("POST", f"/jobs/{JOB_ID}/savepoints", {"target-directory": "/etc"}),
            ("POST", f"/jobs/{JOB_ID}/savepoints", {"target-directory": "/data/spy"}),
            ("POST", f"/jobs/{JOB_ID}/savepoints", {"target-directory": "/data/sp/../x"}),
            ("POST", f"/jobs/{JOB_ID}/savepoints", {"target-directory": "file:///data/%2e%2e/e"}),
            ("POST", f"/jobs/{JOB_ID}/savepoints", {"target-directory": "s3://data/sp"}),
            ("POST", "/savepoint-disposal", {"savepoint-path": "/data/sp/../../etc"}),
        ):
            answer = ask(service.port, method, path, body)
            assert answer.status == 403, (path, body)
        assert dispatcher.commands == dispatcher.disposed == []
        for place in ("/data/sp", "/data/sp/a", "file:///data/sp/b"):
            body = {"target-directory": place}
            assert service.post(f"/jobs/{JOB_ID}/savepoints", body).status == 202


def test_a_job_is_submitted_with_the_token_only(
    service: Service, dispatcher: MemoryDispatcher
) -> None:
    body = {"module": "jobs.count", "arguments": ["--x"], "configuration": {"a": "b"}}
    empty_zip = "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="
    stranger = {name: text for name, text in PAGE.items() if name != "Authorization"}
    given = body | {"package": empty_zip}
    assert ask(service.port, "POST", "/jobs", given, stranger).status == 401
    assert dispatcher.submitted == []
    answer = service.post("/v1/jobs", given)
    assert (answer.status, answer.json["jobid"]) == (202, JOB_ID)
    ((submission, _),) = dispatcher.submitted
    assert (submission.module, submission.arguments) == ("jobs.count", ("--x",))
    assert submission.configuration == {"a": "b"}
    assert service.post("/jobs", {"module": "x"}).status == 400


def test_the_token_is_in_no_log(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "another-token-of-some-length"
    assert service.get("/jobs", Authorization=f"Bearer {TOKEN}").status == 200
    assert service.post("/jobs", {}, Authorization=f"Bearer {TOKEN}").status == 400
    assert service.get("/jobs", Authorization=f"Bearer {wrong}").status == 401
    assert "refused with 401" in caplog.text
    assert TOKEN not in caplog.text
    assert wrong not in caplog.text
