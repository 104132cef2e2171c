"""What can be read, over a dispatcher in memory, behind the real server."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from filled_dispatcher import OTHER_ID
from job_samples import SUM_ID, facts
from served import served
from stored_jobs_dispatcher import JOB_ID, MemoryDispatcher

from penstock.checkpoint.errors import CheckpointError
from penstock.core.job import JobStatus
from penstock.job.documents.job import job_view
from penstock.job.record import ExecutorFacts, with_executors

if TYPE_CHECKING:
    from served import Service


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


def test_executors_of_a_cluster_are_its_task_managers(
    service: Service, dispatcher: MemoryDispatcher
) -> None:
    job = facts()
    subtasks = job.metrics.totals.subtasks
    # Two workers of the first executor have subtasks, and one of the second.
    for key, home in {(0, 0): "1/0", (1, 0): "1/1", (1, 1): "2/0"}.items():
        subtasks[key] = replace(subtasks[key], home=home, worker_bytes=1_000)
    # In one worker with another subtask, as those of different levels are.
    subtasks[2, 0] = replace(subtasks[1, 1], operators={}, records_in=0)
    known = (ExecutorFacts("2", "host2", 2), ExecutorFacts("1", "host1", 2))
    engine = with_executors(job.engine, known)
    assert (engine.executors, engine.cores) == (2, 4)
    dispatcher.add(dispatcher.records[JOB_ID], job=job_view(replace(job, engine=engine), 2_000))
    assert service.get(f"/jobs/{JOB_ID}").json["engine"]["table"] == [
        {
            "id": "1",
            "host": "host1",
            "slots": 2,
            "subtasks": 2,
            "records-in": 80,
            "state-bytes": 300,
            "memory-bytes": 2_000,
        },
        {
            "id": "2",
            "host": "host2",
            "slots": 2,
            "subtasks": 2,
            "records-in": 40,
            "state-bytes": 100,
            "memory-bytes": 1_000,
        },
    ]
    managers = service.get("/taskmanagers").json["taskmanagers"]
    shown = [(each["id"], each["path"], each["freeSlots"]) for each in managers]
    assert shown == [(f"{JOB_ID}-1", "host1", 0), (f"{JOB_ID}-2", "host2", 0)]
    assert service.get("/overview").json["slots-total"] == 4


def test_a_job_is_shown_as_of_now(service: Service, dispatcher: MemoryDispatcher) -> None:
    now_ms = time.time() * 1000
    shown = service.get(f"/jobs/{JOB_ID}").json
    assert abs(shown["now"] - now_ms) < 60_000
    dispatcher.records[JOB_ID] = msgspec.structs.replace(
        dispatcher.records[JOB_ID], status=JobStatus.CANCELED, ended_ms=8_000
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


def test_output_is_read_on_from_a_cursor_without_secrets(service: Service) -> None:
    first = service.get(f"/jobs/{JOB_ID}/stdout").json
    assert first == {"text": "printed, token=******\n", "next": "7-24"}
    assert service.get(f"/jobs/{JOB_ID}/stdout?from=7-24").json["text"] == ""
    assert service.get(f"/jobs/{JOB_ID}/stdout?from=../log").status == 400


def test_a_wrong_parameter_is_named_with_its_value_and_the_way_out(service: Service) -> None:
    for path in ("", "/exceptions", f"/vertices/{'0' * 31}"):
        answer = service.get(f"/jobs/nosuch{path}")
        assert answer.status == 400
        assert answer.json["errors"][0] == (
            "job_id 'nosuch': it must have 32 hexadecimal digits; GET /jobs lists the ids of jobs."
        )
    answer = service.get("/jobmanager/logs/jobmanager.log?bytes=0")
    assert answer.json["errors"][0].startswith("bytes '0': ")
    assert service.get(f"/jobs/{'0' * 32}/stdout").status == 404


def test_pictures_are_text_that_holds_no_markup_of_others(
    service: Service, dispatcher: MemoryDispatcher
) -> None:
    job = facts()
    evil = replace(job, graph=replace(job.graph, job_name='"><script>alert(1)</script>'))
    dispatcher.add(dispatcher.records[JOB_ID], job=job_view(evil, 1))
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


def test_the_document_of_the_interface_is_there(service: Service) -> None:
    found = service.get("/openapi.json").json
    assert {"/v1/jobs/overview", "/v1/jobs/{job_id}/savepoints", "/metrics"} <= set(found["paths"])
    assert not any(path.startswith("/jobs") for path in found["paths"])
    assert json.dumps(found)


class Snapshots:
    """What reads snapshots, for the routes: some are gone, and it knows what it was asked."""

    def __init__(self, *gone: str) -> None:
        self.gone = set(gone)
        self.asked: list[tuple[object, ...]] = []

    def list_states(self, path: str) -> dict[str, Any]:
        return self.first_rows(path, "", None, 0)

    def first_rows(self, path: str, uid: str, state: str | None, limit: int) -> dict[str, Any]:
        self.asked.append((path, uid, state, limit))
        if path in self.gone:
            raise CheckpointError(f"there is no {path} any more")
        return {"path": path, "rows": []}


def completed(number: int, path: str, *, discarded: bool = False) -> dict[str, Any]:
    return {"id": number, "status": "COMPLETED", "external_path": path, "discarded": discarded}


def test_states_are_read_where_the_history_says(dispatcher: MemoryDispatcher) -> None:
    lines = [
        {"id": 9, "status": "FAILED"},
        completed(8, "s3://key:pw@bucket/chk-8"),
        completed(7, "/c/chk-7", discarded=True),
        completed(6, "memory://x/chk-6"),
    ]
    latest = {
        "completed": lines[1],
        "savepoint": completed(3, "/s/savepoint-3"),
        "restored": {"id": 2, "external_path": "/s/savepoint-2", "is_savepoint": True},
    }
    dispatcher.add(dispatcher.records[JOB_ID], checkpoints={"history": lines, "latest": latest})
    snapshots = Snapshots()
    with served(dispatcher, snapshots=snapshots) as service:
        path = f"/jobs/{JOB_ID}/state"
        assert service.get(path).json["path"] == "s3://******@bucket/chk-8"
        assert service.get(path + "?checkpoint=8").status == 200
        # A savepoint outlives its line of the history.
        assert service.get(path + "?checkpoint=3").json["path"] == "/s/savepoint-3"
        assert service.get(path + "?checkpoint=2").json["path"] == "/s/savepoint-2"
        # A checkpoint that the job started from is long deleted by then.
        latest["restored"]["is_savepoint"] = False
        dispatcher.add(dispatcher.records[JOB_ID], checkpoints={"history": lines, "latest": latest})
        assert service.get(path + "?checkpoint=2").status == 404
        for number in ("9", "7", "5"):
            assert service.get(f"{path}?checkpoint={number}").status == 404
        assert "take a savepoint" in service.get(path + "?checkpoint=6").errors
        assert service.get(path + "?checkpoint=/etc").status == 400
        assert service.get(path + "?path=/etc").status == 200
    assert {asked[0] for asked in snapshots.asked} == {
        "s3://key:pw@bucket/chk-8",
        "/s/savepoint-3",
        "/s/savepoint-2",
    }
    with served(dispatcher) as service:
        assert service.get(path).status == 404


def test_a_long_history_is_handed_out_in_parts(dispatcher: MemoryDispatcher) -> None:
    whole = {
        "counts": {"total": 9},
        "latest": {"completed": None},
        "history": [completed(number, f"/c/chk-{number}") for number in (9, 8, 7, 5, 4)],
    }
    dispatcher.add(dispatcher.records[JOB_ID], checkpoints=whole)
    path = f"/jobs/{JOB_ID}/checkpoints"

    def part(query: str) -> tuple[list[int], int, int]:
        found = service.get(path + query).json
        assert found["counts"] == {"total": 9}
        numbers = [line["id"] for line in found["history"]]
        return numbers, found["history_first"], found["history_total"]

    with served(dispatcher) as service:
        assert service.get(path).json == whole
        assert part("?newest=2") == ([9, 8], 0, 5)
        # The part below 6 stays the same when newer ones come.
        assert part("?newest=1&older_than=6") == ([5], 3, 5)
        assert part("?older_than=5") == ([4], 4, 5)
        assert part("?newest=0") == ([], 0, 5)
        assert part("?older_than=0") == ([], 5, 5)
        for wrong in ("?newest=-1", "?newest=10001", "?older_than=x"):
            assert service.get(path + wrong).status == 400
        # An algorithm that collects small packets would make kept connections wait.
        assert service.server._bound.proto == socket.IPPROTO_TCP


def test_a_snapshot_that_is_gone_gives_way_to_its_successor(dispatcher: MemoryDispatcher) -> None:
    class Replaced(Snapshots):
        def first_rows(self, path: str, uid: str, state: str | None, limit: int) -> dict[str, Any]:
            lines = [completed(9, "/c/chk-9"), completed(8, "/c/chk-8", discarded=True)]
            dispatcher.add(dispatcher.records[JOB_ID], checkpoints={"history": lines})
            return super().first_rows(path, uid, state, limit)

    dispatcher.add(dispatcher.records[JOB_ID], checkpoints={"history": [completed(8, "/c/chk-8")]})
    with served(dispatcher, snapshots=Replaced("/c/chk-8")) as service:
        path = f"/jobs/{JOB_ID}/state"
        assert service.get(path).json["path"] == "/c/chk-9"
        # Who asks for a number gets that one or none, but for one who also takes the latest.
        assert service.get(path + "?checkpoint=8").status == 404
        rows = f"{path}/rows?uid=a&checkpoint=8"
        assert service.get(rows).status == 404
        assert service.get(rows + "&or_latest=true").json["path"] == "/c/chk-9"
    with served(dispatcher, snapshots=Snapshots("/c/chk-9")) as service:
        answer = service.get(path)
        assert (answer.status, answer.errors) == (409, "there is no /c/chk-9 any more")


def test_rows_of_a_state_are_asked_for_within_bounds(dispatcher: MemoryDispatcher) -> None:
    history = [completed(8, "/c/chk-8")]
    dispatcher.add(dispatcher.records[JOB_ID], checkpoints={"history": history})
    snapshots = Snapshots()
    path = f"/jobs/{JOB_ID}/state/rows"
    with served(dispatcher, snapshots=snapshots) as service:
        assert service.get(path + "?uid=count&state=a%20b&limit=7").status == 200
        assert service.get(path + "?uid=../x&checkpoint=8").status == 200
        for wrong in ("", "?uid=", "?uid=a&limit=0", "?uid=a&limit=201", f"?uid={'x' * 1001}"):
            assert service.get(path + wrong).status == 400
    assert snapshots.asked == [("/c/chk-8", "count", "a b", 7), ("/c/chk-8", "../x", None, 50)]
    with served(dispatcher, snapshots=snapshots, shows_rows=False) as service:
        assert service.get(f"/jobs/{JOB_ID}/state").status == 200
        assert "penstock.rest.state-rows is false" in service.get(path + "?uid=a").errors
        assert service.get(path + "?uid=a").status == 403
