"""The routes over a dispatcher in memory, behind the real server."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from job_samples import SUM_ID, facts
from served import PAGE, TOKEN, Service, ask, served
from stored_jobs_dispatcher import JOB_ID, TRIGGER_ID, MemoryDispatcher

from penstock.checkpoint.statistics import CheckpointStatistics
from penstock.core.job import JobStatus
from penstock.jobmanager.dispatching import (
    Command,
    CommandKind,
    JobSummary,
    Leadership,
    Operation,
    OperationStatus,
)
from penstock.rest.views.checkpoints import checkpoints_view
from penstock.rest.views.job import job_view, plan_view, vertex_view
from penstock.rest.views.metrics import metrics_view

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER_ID = "f" * 32
FLINK = {"connection": "close", "content-type": "application/json; charset=UTF-8"}


def filled() -> MemoryDispatcher:
    dispatcher = MemoryDispatcher()
    job = facts()
    known = CheckpointStatistics()
    line = {"id": 4, "status": "COMPLETED", "trigger_timestamp": 1, "end_to_end_duration": 9}
    history = [line | {"id": 5, "status": "FAILED"}, line]
    history = [each | {"is_savepoint": False} for each in history]
    dispatcher.add(
        JobSummary(
            JOB_ID, "word count", JobStatus.RUNNING, 1_000, tasks={"total": 3, "running": 3}
        ),
        job=job_view(job, 2_000),
        plan={"plan": plan_view(JOB_ID, job.graph)},
        metrics=metrics_view(job, known, 2_000),
        checkpoints=checkpoints_view(known, history),
        checkpoints__4=line | {"tasks": {}, "subtasks": {SUM_ID: {"id": 4, "subtasks": []}}},
        checkpoints__5=line | {"id": 5, "tasks": {}},
        **{f"vertices__{SUM_ID}": vertex_view(job, job.graph.stages[1], 2_000)},
    )
    dispatcher.add(JobSummary(OTHER_ID, "done", JobStatus.FINISHED, 1_000, 5_000))
    return dispatcher


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[MemoryDispatcher, Service]]:
    dispatcher = filled()
    with served(dispatcher) as service:
        yield dispatcher, service


@pytest.fixture
def dispatcher(shared: tuple[MemoryDispatcher, Service]) -> MemoryDispatcher:
    fresh = filled()
    shared[0].__dict__.update(
        {name: value for name, value in vars(fresh).items() if name not in ("changes", "lock")}
    )
    return shared[0]


@pytest.fixture
def service(shared: tuple[MemoryDispatcher, Service], dispatcher: MemoryDispatcher) -> Service:
    return shared[1]


# -- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(
    "path",
    [
        "/config",
        "/overview",
        "/taskmanagers",
        "/jobs",
        "/jobs/overview",
        f"/jobs/{JOB_ID}",
        f"/jobs/{JOB_ID}/status",
        f"/jobs/{JOB_ID}/plan",
        f"/jobs/{JOB_ID}/exceptions",
        f"/jobs/{JOB_ID}/execution-result",
        f"/jobs/{JOB_ID}/metrics",
        f"/jobs/{JOB_ID}/vertices/{SUM_ID}",
        f"/jobs/{JOB_ID}/vertices/{SUM_ID}/metrics",
        f"/jobs/{JOB_ID}/vertices/{SUM_ID}/watermarks",
        f"/jobs/{JOB_ID}/vertices/{SUM_ID}/backpressure",
        f"/jobs/{JOB_ID}/checkpoints",
        f"/jobs/{JOB_ID}/checkpoints/details/4",
        f"/jobs/{JOB_ID}/checkpoints/details/4/subtasks/{SUM_ID}",
        f"/jobs/{JOB_ID}/checkpoints/details/latest",
        f"/jobs/{OTHER_ID}",
        f"/jobs/{OTHER_ID}/checkpoints",
        f"/jobs/{OTHER_ID}/exceptions",
        "/jobmanager/config",
        "/jobmanager/environment",
        "/jobmanager/logs",
    ],
)
def test_everything_is_served_with_and_without_a_version(
    service: Service, prefix: str, path: str
) -> None:
    answer = service.get(prefix + path)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers
    assert answer.json is not None


def test_lists_and_overview_count_the_same_jobs(service: Service) -> None:
    assert service.get("/jobs").json == {
        "jobs": [{"id": JOB_ID, "status": "RUNNING"}, {"id": OTHER_ID, "status": "FINISHED"}]
    }
    overview = service.get("/overview").json
    assert (overview["jobs-running"], overview["jobs-finished"]) == (1, 1)
    assert (overview["taskmanagers"], overview["slots-total"]) == (1, 2)


def test_a_job_is_shown_as_of_now(service: Service, dispatcher: MemoryDispatcher) -> None:
    now_ms = time.time() * 1000
    shown = service.get(f"/jobs/{JOB_ID}").json
    assert abs(shown["now"] - now_ms) < 60_000
    dispatcher.summaries[JOB_ID] = replace(
        dispatcher.summaries[JOB_ID], status=JobStatus.CANCELED, ended_ms=8_000
    )
    shown = service.get(f"/jobs/{JOB_ID}").json
    assert (shown["state"], shown["duration"]) == ("CANCELED", 7_000)
    assert {vertex["status"] for vertex in shown["vertices"]} == {"CANCELED"}


def test_metrics_are_listed_and_looked_up(service: Service) -> None:
    names = {each["id"] for each in service.get(f"/jobs/{JOB_ID}/metrics").json}
    assert {"uptime", "numRestarts", "numberOfCompletedCheckpoints"} <= names
    asked = service.get(f"/jobs/{JOB_ID}/metrics?get=numRestarts,nonsense").json
    assert asked == [{"id": "numRestarts", "value": "0"}]
    path = f"/jobs/{JOB_ID}/vertices/{SUM_ID}/metrics?get=1.numRecordsIn,1.Sum.numRecordsIn"
    assert [each["value"] for each in service.get(path).json] == ["40", "40"]


def test_the_latest_checkpoint_may_be_asked_for_by_status(service: Service) -> None:
    base = f"/jobs/{JOB_ID}/checkpoints/details/latest"
    assert service.get(base).json["id"] == 5
    assert service.get(base + "?status=COMPLETED").json["id"] == 4
    assert service.get(base + "?status=IN_PROGRESS").status == 404
    assert service.get(base + "?status=LOST").status == 400
    # What is for the other route stays out.
    assert "subtasks" not in service.get(f"/jobs/{JOB_ID}/checkpoints/details/4").json


def test_logs_are_those_of_the_list_without_secrets(service: Service) -> None:
    names = [each["name"] for each in service.get("/jobmanager/logs").json["logs"]]
    assert names == ["jobmanager.log", f"job-{JOB_ID}.log", f"job-{OTHER_ID}.log"]
    for path in (*(f"/jobmanager/logs/{name}" for name in names), f"/jobs/{JOB_ID}/log"):
        answer = service.get(path)
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.body == b"a line with password=******\n"
    assert service.get("/jobmanager/logs/jobmanager.log?bytes=5").status == 200
    assert service.get("/jobmanager/logs/jobmanager.log?bytes=0").status == 400
    assert service.get("/jobmanager/logs/other.log").status == 404


def test_pictures_are_text_that_holds_no_markup_of_others(
    service: Service, dispatcher: MemoryDispatcher
) -> None:
    job = facts()
    evil = replace(job, graph=replace(job.graph, job_name='"><script>alert(1)</script>'))
    dispatcher.add(dispatcher.summaries[JOB_ID], job=job_view(evil, 1))
    picture = service.get(f"/jobs/{JOB_ID}/plan.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert b"<script" not in picture.body
    assert b"&lt;script&gt;" in picture.body
    assert b"<rect" in service.get(f"/jobs/{JOB_ID}/checkpoints/timeline.svg").body


def test_unknown_things_are_404_with_errors(service: Service) -> None:
    for path in (
        f"/jobs/{'0' * 32}",
        f"/jobs/{'0' * 32}/checkpoints",
        f"/jobs/{'0' * 32}/exceptions",
        f"/jobs/{'0' * 32}/log",
        f"/jobs/{'0' * 32}/events",
        f"/jobs/{JOB_ID}/vertices/{'0' * 32}",
        f"/jobs/{JOB_ID}/checkpoints/details/99",
        f"/jobs/{JOB_ID}/checkpoints/details/5/subtasks/{SUM_ID}",
        f"/jobs/{JOB_ID}/savepoints/{'0' * 32}",
        f"/savepoint-disposal/{'0' * 32}",
        "/nothing",
        "/v1/nothing",
    ):
        answer = service.get(path)
        assert answer.status == 404, path
        assert answer.errors


# -- asking for something -------------------------------------------------------------------------


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


# -- standby --------------------------------------------------------------------------------------


def test_a_standby_passes_requests_on_to_the_leader() -> None:
    leader, standby = filled(), MemoryDispatcher()
    with served(leader) as leading:
        standby.leads = Leadership(False, 7, f"http://127.0.0.1:{leading.port}")
        with served(standby) as waiting:
            assert waiting.get("/v1/jobs").json == leading.get("/v1/jobs").json
            answer = waiting.post(f"/jobs/{JOB_ID}/savepoints?x=1", {"target-directory": "/s"})
            assert answer.status == 202
            assert leader.commands[0][2].directory == "/s"
            assert waiting.get(f"/jobs/{'0' * 32}").status == 404
            # The leader recognises Flink's client through the standby.
            failed = Operation(TRIGGER_ID, OperationStatus.FAILED, error="no")
            leader.operations[TRIGGER_ID] = failed
            path = f"/v1/jobs/{JOB_ID}/savepoints/{TRIGGER_ID}"
            assert ask(waiting.port, "GET", path, {}, FLINK).status == 500
            assert waiting.get("/health/ready").json["role"] == "standby"
            assert b"penstock_leader" in waiting.get("/metrics").body
            # A stream would hold a connection for ever: its reader is told where to go.
            stream = waiting.get(f"/jobs/{JOB_ID}/events")
            assert stream.status == 503
            assert stream.headers["x-penstock-leader"] == standby.leads.leader_url


def test_without_a_leader_the_service_is_unavailable() -> None:
    dispatcher = filled()
    dispatcher.leads = Leadership(False, 0, None)
    with served(dispatcher) as service:
        answer = service.get("/jobs")
        assert answer.status == 503
        assert answer.errors
        assert "x-penstock-leader" not in answer.headers
        assert service.get("/health/ready").status == 503
        assert service.get("/health/live").status == 200


def test_two_standbys_do_not_send_a_request_round() -> None:
    first, second = filled(), filled()
    with served(first) as one, served(second) as two:
        first.leads = Leadership(False, 1, f"http://127.0.0.1:{two.port}")
        second.leads = Leadership(False, 1, f"http://127.0.0.1:{one.port}")
        assert one.get("/jobs").status == 503


# -- events ---------------------------------------------------------------------------------------


def test_events_name_documents_until_the_job_ends() -> None:
    dispatcher = filled()
    with served(dispatcher, max_streams=2) as service:
        streams = []
        for _ in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
            connection.request("GET", f"/jobs/{JOB_ID}/events", headers=PAGE)
            streams.append((connection, connection.getresponse()))
        assert {answer.status for _, answer in streams} == {200}
        assert all(
            answer.getheader("content-type").startswith("text/event-stream")
            for _, answer in streams
        )
        for _, answer in streams:
            assert answer.readline() == b"retry: 3000\n"
        refused = service.get(f"/jobs/{JOB_ID}/events")
        assert refused.status == 409
        dispatcher.changes.put("checkpoints")
        for _, answer in streams:
            lines = [answer.readline() for _ in range(4)]
            assert lines == [b"\n", b"event: changed\n", b"data: checkpoints\n", b"\n"]
        dispatcher.changes.put(None)
        for connection, answer in streams:
            assert answer.read() == b"event: ended\ndata: job\n\n"
            connection.close()
        # Readers that are gone make room for others.
        dispatcher.changes.put(None)
        assert service.get(f"/jobs/{JOB_ID}/events").status == 200


def test_streams_end_with_the_service() -> None:
    """Else its end would wait for readers who wait for it."""
    dispatcher = filled()
    with served(dispatcher) as service:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        connection.request("GET", f"/jobs/{JOB_ID}/events", headers=PAGE)
        answer = connection.getresponse()
        assert answer.readline() == b"retry: 3000\n"
    assert answer.read().endswith(b"event: ended\ndata: job\n\n")
    connection.close()
    dispatcher.changes.put(None)


# -- submission -----------------------------------------------------------------------------------


def test_a_job_is_submitted_with_the_token_only(
    service: Service, dispatcher: MemoryDispatcher
) -> None:
    body = {"module": "jobs.count", "arguments": ["--x"], "configuration": {"a": "b"}}
    empty_zip = "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="
    assert service.post("/jobs", body | {"package": empty_zip}).status == 403
    assert dispatcher.submitted == []
    trusted = {"Authorization": f"Bearer {TOKEN}"}
    answer = service.post("/v1/jobs", body | {"package": empty_zip}, **trusted)
    assert (answer.status, answer.json["jobid"]) == (202, JOB_ID)
    (submission,) = dispatcher.submitted
    assert (submission.module, submission.arguments) == ("jobs.count", ("--x",))
    assert submission.configuration == (("a", "b"),)
    assert service.post("/jobs", {"module": "x"}, **trusted).status == 400


def test_the_document_of_the_interface_is_there(service: Service) -> None:
    found = service.get("/openapi.json").json
    assert {"/v1/jobs/overview", "/v1/jobs/{job_id}/savepoints", "/metrics"} <= set(found["paths"])
    assert not any(path.startswith("/jobs") for path in found["paths"])
    assert json.dumps(found)
