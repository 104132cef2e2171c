"""Standbys, leaders, and streams of events."""

from __future__ import annotations

import http.client

import pytest
from filled_dispatcher import filled
from served import PAGE, ask, served
from stored_jobs_dispatcher import JOB_ID, TRIGGER_ID, MemoryDispatcher

from penstock.jobmanager.dispatching import Leadership
from penstock.jobmanager.job_records import Operation, OperationStatus

FLINK = {
    "connection": "close",
    "content-type": "application/json; charset=UTF-8",
    "Authorization": PAGE["Authorization"],
}


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


def test_who_took_the_leaders_port_is_not_passed_the_token() -> None:
    """A leader that died has its address in the lease until the lease ends."""
    impostor, standby = filled(), MemoryDispatcher()
    # It serves as a job manager does, and holds another token.
    with served(impostor, token="another-token-of-some-length") as taken:
        standby.leads = Leadership(False, 7, f"http://127.0.0.1:{taken.port}")
        with served(standby) as waiting:
            answer = waiting.post(f"/jobs/{JOB_ID}/savepoints", {"target-directory": "/s"})
            assert answer.status == 503
            assert "does not hold the token" in answer.errors
            assert impostor.commands == []


@pytest.mark.parametrize("in_clear", [False, True])
def test_a_leader_on_another_machine_is_passed_the_token_over_tls_only(
    in_clear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    connect = http.client.HTTPConnection.connect

    def noted(connection: http.client.HTTPConnection) -> None:
        if connection.host == "leader.example":
            reached.append(connection.host)
            raise ConnectionRefusedError("nobody is there")
        connect(connection)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", noted)
    standby = MemoryDispatcher()
    standby.leads = Leadership(False, 7, "http://leader.example:8081")
    with served(standby, token_in_clear=in_clear) as waiting:
        answer = waiting.get("/v1/jobs")
    assert answer.status == 503
    assert bool(reached) is in_clear
    assert ("security.ssl.rest.enabled" in answer.errors) is not in_clear


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


def test_events_name_documents_until_the_job_ends() -> None:
    dispatcher = filled()
    with served(dispatcher, max_streams=2) as service:
        streams = []
        for _ in range(2):
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=200)
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
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=200)
        connection.request("GET", f"/jobs/{JOB_ID}/events", headers=PAGE)
        answer = connection.getresponse()
        assert answer.readline() == b"retry: 3000\n"
    assert answer.read().endswith(b"event: ended\ndata: job\n\n")
    connection.close()
    dispatcher.changes.put(None)
