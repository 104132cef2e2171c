"""The sink for Elasticsearch against a double of the bulk protocol: what clusters rarely do.

tests/e2e/tables has a real OpenSearch.
"""

from __future__ import annotations

import base64
import datetime
import json
import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from http_double import Double, closed_port
from penstock.common import Row
from penstock.connectors.sink import DeliveryGuarantee, WriterContext
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

BY_ID = ElasticsearchEmitter.static_index("users", "id")
CONTEXT = WriterContext("a" * 32, "out", 0, 1, 1, "at", 0, "")


@pytest.fixture
def cluster() -> Iterator[Double]:
    with Double(default=(200, {"errors": False, "items": []})) as double:
        yield double


def builder(*hosts: str, kind: Any = Elasticsearch7SinkBuilder, emitter: Any = BY_ID) -> Any:
    made = kind().set_hosts(list(hosts)).set_emitter(emitter)
    return made.set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 2, 1)


def written(sink: Any, records: list[Any]) -> None:
    sink = pickle.loads(pickle.dumps(sink))
    writer = sink.create_writer(CONTEXT)
    try:
        writer.write(records, None, 0)
        assert writer.prepare_commit() == []
    finally:
        writer.close()
        sink.close()


def lines(double: Double) -> list[list[Any]]:
    return [[json.loads(line) for line in each.body.splitlines()] for each in double.requests]


def result(status: int, **more: Any) -> dict[str, Any]:
    return {"update": {"_index": "users", "_id": "7", "status": status, **more}}


def test_documents_of_a_request(cluster: Double) -> None:
    day = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    records = [{"id": 1, "at": day}, Row(id="b", sum=Decimal("1.50"), inner=Row(x=None))]
    written(builder(cluster.address).build(), records)
    update = {"_index": "users", "retry_on_conflict": 5}
    second = {"id": "b", "sum": "1.50", "inner": {"x": None}}
    assert lines(cluster) == [
        [
            {"update": {**update, "_id": "1"}},
            {"doc": {"id": 1, "at": "2026-01-02T03:04:05Z"}, "doc_as_upsert": True},
            {"update": {**update, "_id": "b"}},
            {"doc": second, "doc_as_upsert": True},
        ]
    ]
    [request] = cluster.requests
    assert (request.method, request.path) == ("POST", "/_bulk")
    assert request.headers["Content-Type"] == "application/x-ndjson"
    assert request.body.endswith(b"\n")


def test_requests_are_cut(cluster: Double) -> None:
    emitter = ElasticsearchEmitter.dynamic_index("day")
    records = [{"day": f"d{number}", "text": "x" * 600_000} for number in range(5)]
    limited = builder(cluster.address, emitter=emitter)
    written(limited.set_bulk_flush_max_actions(2).build(), records)
    assert [len(each) // 2 for each in lines(cluster)] == [2, 2, 1]
    assert lines(cluster)[2][0] == {"index": {"_index": "d4"}}
    cluster.requests.clear()
    limited.set_bulk_flush_max_actions(-1).set_bulk_flush_max_size_mb(1)
    written(limited.build(), records)
    assert [len(each) // 2 for each in lines(cluster)] == [2, 2, 1]


def test_types_of_elasticsearch_6(cluster: Double) -> None:
    emitter = ElasticsearchEmitter.static_index("users", None, "user")
    six = builder(cluster.address, kind=Elasticsearch6SinkBuilder, emitter=emitter)
    written(six.build(), [{"a": 1}])
    written(builder(cluster.address, emitter=emitter).build(), [{"a": 1}])
    assert [each[0] for each in lines(cluster)] == [
        {"index": {"_index": "users", "_type": "user"}},
        {"index": {"_index": "users"}},
    ]
    with pytest.raises(ProgramError, match="needs a type of documents"):
        builder("a", kind=Elasticsearch6SinkBuilder).build()


def test_only_what_the_cluster_could_not_take_is_sent_again(cluster: Double) -> None:
    partly = {"errors": True, "items": [result(200), result(429), result(409)]}
    cluster.answers = [(429, {}), (200, partly)]
    written(builder(cluster.address).build(), [{"id": 1}, {"id": 2}, {"id": 3}])
    ids = [[each["update"]["_id"] for each in of[::2]] for of in lines(cluster)]
    assert ids == [["1", "2", "3"], ["1", "2", "3"], ["2", "3"]]


def test_a_document_that_is_refused_has_an_address(cluster: Double) -> None:
    error = {"reason": "failed to parse", "caused_by": {"reason": "For input: x"}}
    items = [result(429), result(400, error=error)]
    cluster.answers = [(200, {"errors": True, "items": items})]
    refused = (
        r"refuses 1 of 2 documents: index 'users', id '7', status 400: failed to parse "
        r"\(For input: x\), in .*\"id\":2"
    )
    with pytest.raises(InputError, match=refused):
        written(builder(cluster.address).build(), [{"id": 1}, {"id": 2}])


def test_what_never_heals_ends_after_the_tries(cluster: Double) -> None:
    cluster.default = (200, {"errors": True, "items": [result(429, error={"reason": "busy"})]})
    with pytest.raises(JobExecutionError, match=r"took no 1 documents.*status 429: busy") as found:
        written(builder(cluster.address).build(), [{"id": 1}])
    assert not isinstance(found.value, InputError)
    assert len(cluster.requests) == 3
    cluster.default = (503, {"x": "starting"})
    with pytest.raises(JobExecutionError, match=r"answered POST /_bulk with 503: .*starting"):
        written(builder(cluster.address).build(), [{"id": 1}])


def test_another_host_is_asked_and_an_idle_connection_is_made_again(cluster: Double) -> None:
    away = f"127.0.0.1:{closed_port()}"
    sink = builder(away, cluster.address).build()
    writer = sink.create_writer(CONTEXT)
    for number in range(2):
        writer.write([{"id": number}], None, 0)
        writer.prepare_commit()
        cluster.drop_connections()
    assert len(lines(cluster)) == 2
    sink.close()
    alone = builder(away).set_bulk_flush_backoff_strategy(FlushBackoffType.NONE, 9, 9)
    with pytest.raises(
        JobExecutionError,
        match=rf"{away} does not answer POST /_bulk: .*refused. Is the address right",
    ):
        written(alone.build(), [{"id": 1}])


def test_a_cluster_that_is_away_is_named_before_the_last_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = f"127.0.0.1:{closed_port()}"
    patient = builder(away).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 3, 1)
    with pytest.raises(JobExecutionError):
        written(patient.build(), [{"id": 1}])
    (said,) = [each.getMessage() for each in caplog.records]
    assert said.startswith(f"{away} does not answer, trying again: ")


def test_a_cluster_without_tls(cluster: Double) -> None:
    secure = builder(f"https://{cluster.address}")
    secure.set_bulk_flush_backoff_strategy(FlushBackoffType.NONE, 9, 9)
    with pytest.raises(JobExecutionError, match="write http:// instead of https://"):
        written(secure.build(), [{"id": 1}])


def test_who_asks_and_where(cluster: Double) -> None:
    made = builder(cluster.address).set_connection_username("ada").set_connection_password("s3c")
    made.set_connection_path_prefix("/search/").set_connection_timeout(500).set_socket_timeout(500)
    cluster.answers = [(200, {"errors": False}), (401, {"error": "no"})]
    sink = made.build()
    written(sink, [{"id": 1}])
    [request] = cluster.requests
    assert request.path == "/search/_bulk"
    login = request.headers["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(login) == b"ada:s3c"
    with pytest.raises(InputError, match=r"with 401, asked by the user 'ada'; check") as found:
        written(sink, [{"id": 1}])
    assert "s3c" not in f"{found.value}{sink._settings!r}"


def test_what_is_no_cluster(cluster: Double) -> None:
    cluster.default = (200, {"hello": "world"})
    with pytest.raises(InputError, match=r"does not answer as Elasticsearch does: .*hello"):
        written(builder(cluster.address).build(), [{"id": 1}])


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"name": "Ada"}, "has no field 'id'"),
        ({"id": None}, "has no value in the field 'id'"),
        (Row(1, 2), "has no field 'id'"),
        ({"id": 1, "what": object()}, "has a object in it, which no JSON can hold"),
    ],
)
def test_records_that_are_no_documents(cluster: Double, record: Any, text: str) -> None:
    with pytest.raises(ProgramError, match=text):
        written(builder(cluster.address).build(), [record])


def test_settings_that_are_none() -> None:
    made = Elasticsearch7SinkBuilder()
    for call, text in (
        (lambda: made.set_hosts("ftp://x"), r"'ftp://x' is none"),
        (lambda: made.set_hosts("http://x:port"), r"has a port that is none"),
        (lambda: made.set_hosts([]), r"needs the address of a host"),
        (lambda: made.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE), "no transactions"),
        (lambda: made.set_bulk_flush_max_actions(0), "takes a number from 1 up, or -1"),
        (lambda: made.set_emitter("users"), "takes an ElasticsearchEmitter"),
        (made.build, "needs set_hosts"),
        (lambda: made.set_hosts("a").build(), "needs set_emitter"),
        (lambda: ElasticsearchEmitter.static_index(""), "needs the name of an index"),
    ):
        with pytest.raises(ProgramError, match=text):
            call()
