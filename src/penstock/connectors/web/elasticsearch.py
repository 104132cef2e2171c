"""Elasticsearch and OpenSearch as a sink: documents in bulk requests, at least once.

    Elasticsearch7SinkBuilder()
        .set_hosts(["http://localhost:9200"])
        .set_emitter(ElasticsearchEmitter.static_index("users", "id"))
        .build()

A subtask sends what it has when enough is there, and at the end of each epoch. What a failure
repeats finds the document of the same id, so with a key field each document is there once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Self

import msgspec

from penstock.connectors.sink import DeliveryGuarantee, DirectSink, SinkWriter, WriterContext
from penstock.connectors.web.client import HEALING, HttpClient, HttpSettings, checked_hosts
from penstock.core.errors import InputError, JobExecutionError, ProgramError, shorten
from penstock.core.row import Row
from penstock.core.times import BackOff, Tries

_PORT: Final = 9200
_NEWLINES: Final = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
_CONFLICTS: Final = 5
"""How often the cluster itself repeats an update that met another one of the same document."""
_AGAIN: Final = HEALING | {409}
"""Statuses of documents that another try may not meet; 409 when updates of one met each other."""
_NAMED: Final = 3


class FlushBackoffType(Enum):
    """How long a request that the cluster could not take waits before it is tried again."""

    CONSTANT = 0
    EXPONENTIAL = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class ElasticsearchEmitter:
    """Says which document a record is, in which index; made by one of its two methods.

    Records are dicts, or rows with names.
    """

    index: str
    key_field: str | None
    doc_type: str | None
    is_dynamic: bool

    def __post_init__(self) -> None:
        if not self.index or not isinstance(self.index, str):
            raise ProgramError(
                f"an ElasticsearchEmitter needs the name of an index, not {self.index!r}."
            )

    @staticmethod
    def static_index(
        index: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Puts all records into one index.

        Args:
            index: Its name.
            key_field: Field whose text is the id: the document of this id is created, or gets the
                fields of the record. Without one each record is a new document.
            doc_type: Type of documents, which only Elasticsearch 6 has.

        Example:
            >>> ElasticsearchEmitter.static_index("users", "id").lines([{"id": 7, "name": "Ada"}])
            [(b'{"update":{"_index":"users","_id":"7","retry_on_conflict":5}}',
              b'{"doc":{"id":7,"name":"Ada"},"doc_as_upsert":true}')]
        """
        return ElasticsearchEmitter(index, key_field, doc_type, is_dynamic=False)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Puts each record into the index that one of its fields names.

        Args:
            index_field: The field.
            key_field: As for `static_index`.
            doc_type: As for `static_index`.

        Example:
            >>> emitter = ElasticsearchEmitter.dynamic_index("day")
            >>> emitter.lines([{"day": "monday", "clicks": 3}])
            [(b'{"index":{"_index":"monday"}}', b'{"day":"monday","clicks":3}')]
        """
        return ElasticsearchEmitter(index_field, key_field, doc_type, is_dynamic=True)

    def lines(self, records: list[Any]) -> list[tuple[bytes, bytes]]:
        """Returns two lines of a bulk request for each record: what to do, and with what."""
        encode, key_field, is_dynamic = _ENCODER.encode, self.key_field, self.is_dynamic
        meta: dict[str, Any] = {"_index": self.index}
        if self.doc_type is not None:
            meta["_type"] = self.doc_type
        lines = []
        record: Any = None
        try:
            for record in records:
                if is_dynamic:
                    meta["_index"] = str(_field(record, self.index))
                if key_field is None:
                    lines.append((encode({"index": meta}), encode(record)))
                    continue
                meta["_id"] = str(_field(record, key_field))
                meta["retry_on_conflict"] = _CONFLICTS
                document = {"doc": record, "doc_as_upsert": True}
                lines.append((encode({"update": meta}), encode(document)))
        except _Unfit as error:
            raise ProgramError(f"the record {shorten(record)} {error}") from None
        return lines


class _Unfit(TypeError):
    """Says after the text of a record what is wrong with it."""


def _field(record: Any, name: str) -> Any:
    try:
        value = record[name]
    except (KeyError, TypeError, ValueError, IndexError):
        raise _Unfit(f"has no field {name!r}, which the ElasticsearchEmitter needs.") from None
    if value is None:
        raise _Unfit(f"has no value in the field {name!r}, which the ElasticsearchEmitter needs.")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        try:
            return value.as_dict(recursive=True)
        except Exception:
            raise _Unfit("has no names of fields; a document needs them: Row(name=...).") from None
    raise _Unfit(f"has a {type(value).__name__} in it, which no JSON can hold.")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)


@dataclass(frozen=True, slots=True)
class _Settings:
    http: HttpSettings
    emitter: ElasticsearchEmitter
    most_actions: int
    most_bytes: int


class ElasticsearchSink(DirectSink):
    """Writes documents; made by `Elasticsearch7SinkBuilder`, for OpenSearch too."""

    _default_name = "Elasticsearch Sink"

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def connect(self) -> HttpClient:
        return HttpClient(self._settings.http, _PORT)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return _Writer(self._settings, self.client())


class _Writer(SinkWriter):
    """Sends the lines of one epoch."""

    def __init__(self, settings: _Settings, client: HttpClient) -> None:
        self._settings = settings
        self._client = client
        self._lines: list[tuple[bytes, bytes]] = []
        self._size = 0

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        most, most_bytes = self._settings.most_actions, self._settings.most_bytes
        for line in self._settings.emitter.lines(values):
            self._lines.append(line)
            self._size += len(line[0]) + len(line[1]) + 2
            if len(self._lines) >= most or self._size >= most_bytes:
                self._flush()

    def prepare_commit(self) -> list[Any]:
        self._flush()
        return []

    def _flush(self) -> None:
        lines, self._lines, self._size = self._lines, [], 0
        tries = Tries(self._settings.http.backoff)
        while lines:
            lines, reason = self._tried(lines)
            if lines:
                tries.failed(
                    JobExecutionError(
                        f"{self._settings.http.shown()} took no {len(lines):,} documents, however "
                        f"often they were sent: {reason}. set_bulk_flush_backoff_strategy(...) "
                        "says how often."
                    )
                )

    def _tried(self, lines: list[tuple[bytes, bytes]]) -> tuple[list[tuple[bytes, bytes]], str]:
        """Sends lines; returns those to be sent again, and why the first of them."""
        body = b"\n".join([part for line in lines for part in line])
        answer = self._client.send("POST", "/_bulk", body + b"\n", _NEWLINES)
        try:
            document = json.loads(answer.body)
            if not document["errors"]:
                return [], ""
            results = [next(iter(item.values())) for item in document["items"]]
            pairs = list(zip(lines, results, strict=True))
            again = [line for line, each in pairs if each["status"] in _AGAIN]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise InputError(
                f"{self._settings.http.shown()} does not answer as Elasticsearch does: "
                f"{answer.text()}"
            ) from None
        failed = [(line, each) for line, each in pairs if each["status"] >= 300]
        refused = [pair for pair in failed if pair[1]["status"] not in _AGAIN]
        if refused:
            raise InputError(
                f"{self._settings.http.shown()} refuses {len(refused):,} of {len(lines):,} "
                f"documents: {'; '.join(_refusal(*pair) for pair in refused[:_NAMED])}"
            )
        return again, _refusal(*failed[0]) if failed else ""

    def close(self) -> None:
        self._lines = []


def _refusal(line: tuple[bytes, bytes], result: dict[str, Any]) -> str:
    error = result.get("error")
    reason = error if isinstance(error, str) else (error or {}).get("reason", "no reason given")
    cause = {} if isinstance(error, str) else (error or {}).get("caused_by", {})
    more = f" ({cause['reason']})" if cause.get("reason") else ""
    document = shorten(line[1].decode(errors="replace"))
    return (
        f"index '{result.get('_index')}', id {result.get('_id')!r}, status {result['status']}: "
        f"{reason}{more}, in {document}"
    )


@dataclass
class ElasticsearchSinkBuilderBase:
    """Builds an `ElasticsearchSink`; hosts and an emitter are needed."""

    _http: HttpSettings = field(default_factory=lambda: HttpSettings(()), init=False)
    _emitter: ElasticsearchEmitter | None = field(default=None, init=False)
    _most: dict[str, int] = field(default_factory=dict, init=False)

    def set_emitter(self, emitter: ElasticsearchEmitter) -> Self:
        """Sets what says which document a record is."""
        if not isinstance(emitter, ElasticsearchEmitter):
            raise ProgramError(f"set_emitter({emitter!r:.80}) takes an ElasticsearchEmitter.")
        self._emitter = emitter
        return self

    def set_hosts(self, hosts: str | Sequence[str]) -> Self:
        """Sets addresses: `host:port`, or with `https://`; one after the other is tried."""
        found = (hosts,) if isinstance(hosts, str) else tuple(hosts)
        checked_hosts(found, "set_hosts", default_port=_PORT)
        return self._with(hosts=found)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Accepts AT_LEAST_ONCE and NONE, which is at least once here, too."""
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ProgramError(
                "Elasticsearch has no transactions, so there is no EXACTLY_ONCE. With AT_LEAST_ONCE"
                " and a key field each document is there once, whatever is repeated."
            )
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ProgramError(
                f"set_delivery_guarantee({delivery_guarantee!r:.80}) takes a DeliveryGuarantee."
            )
        return self

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Self:
        """Sets how many documents are one request, 1000 unless set; -1 for no limit."""
        return self._limit("set_bulk_flush_max_actions", "actions", num_max_actions)

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Self:
        """Sets how many megabytes are one request, 5 unless set; -1 for no limit."""
        return self._limit("set_bulk_flush_max_size_mb", "size", max_size_mb)

    def set_bulk_flush_interval(self, interval_millis: int) -> Self:
        """Is accepted; documents wait for the end of the epoch at most, about a second."""
        return self._limit("set_bulk_flush_interval", "interval", interval_millis)

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Self:
        """Sets how often documents are sent again that the cluster could not take, and when.

        Unless set: six times, after 100 ms, 200 ms and so on. Flink does not try again unless set.
        """
        if not isinstance(flush_backoff_type, FlushBackoffType):
            raise ProgramError(
                f"set_bulk_flush_backoff_strategy({flush_backoff_type!r:.80}, ...) takes a "
                "FlushBackoffType."
            )
        retries = 0 if flush_backoff_type is FlushBackoffType.NONE else max_retries
        if min(retries, delay_millis) < 0:
            raise ProgramError(
                f"set_bulk_flush_backoff_strategy(..., {max_retries}, {delay_millis}) takes "
                "numbers from 0 up."
            )
        grows = flush_backoff_type is FlushBackoffType.EXPONENTIAL
        return self._with(backoff=BackOff(retries, delay_millis, grows))

    def set_connection_username(self, username: str) -> Self:
        """Sets the user."""
        return self._with(user_name=username)

    def set_connection_password(self, password: str) -> Self:
        """Sets the password of the user."""
        return self._with(password=password)

    def set_connection_path_prefix(self, prefix: str) -> Self:
        """Sets what comes before the path of each request, for a proxy."""
        return self._with(path_prefix=prefix)

    def set_connection_request_timeout(self, timeout: int) -> Self:
        """Is accepted; each subtask has a connection of its own, so there is none to wait for."""
        return self

    def set_connection_timeout(self, timeout: int) -> Self:
        """Sets how many milliseconds a connection may take; 10,000 unless set."""
        return self._with(timeouts_s=(timeout / 1000, self._http.timeouts_s[1]))

    def set_socket_timeout(self, timeout: int) -> Self:
        """Sets how many milliseconds the answer may take; 60,000 unless set."""
        return self._with(timeouts_s=(self._http.timeouts_s[0], timeout / 1000))

    def set_certificate_authority(self, ca_file: str) -> Self:
        """Sets the file with the certificates to trust, for `https://`; PyFlink has none."""
        return self._with(ca_file=str(ca_file))

    def _with(self, **more: Any) -> Self:
        self._http = replace(self._http, **more)
        return self

    def _limit(self, name: str, what: str, value: int) -> Self:
        if not isinstance(value, int) or value == 0 or value < -1:
            raise ProgramError(f"{name}({value!r:.80}) takes a number from 1 up, or -1.")
        self._most[what] = value if value > 0 else 1 << 62
        return self

    def _checked(self, emitter: ElasticsearchEmitter) -> ElasticsearchEmitter:
        return emitter

    def build(self) -> ElasticsearchSink:
        """Returns the sink."""
        if not self._http.hosts:
            raise ProgramError("an ElasticsearchSink needs set_hosts('http://host:9200').")
        if self._emitter is None:
            raise ProgramError(
                "an ElasticsearchSink needs set_emitter(ElasticsearchEmitter.static_index(...))."
            )
        return ElasticsearchSink(
            _Settings(
                self._http,
                self._checked(self._emitter),
                self._most.get("actions", 1000),
                self._most.get("size", 5) << 20,
            )
        )


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for Elasticsearch 7 and newer, and for OpenSearch.

    Example:
        >>> sink = (
        ...     Elasticsearch7SinkBuilder()
        ...     .set_hosts("localhost:9200")
        ...     .set_emitter(ElasticsearchEmitter.dynamic_index("index_col", "key_col"))
        ...     .build()
        ... )
    """

    def _checked(self, emitter: ElasticsearchEmitter) -> ElasticsearchEmitter:
        # Newer clusters refuse it, and 7 has `_doc` for all.
        return replace(emitter, doc_type=None)


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for Elasticsearch 6, whose documents have types.

    Example:
        >>> sink = (
        ...     Elasticsearch6SinkBuilder()
        ...     .set_hosts("localhost:9200")
        ...     .set_emitter(ElasticsearchEmitter.static_index("users", "id", "user"))
        ...     .build()
        ... )
    """

    def _checked(self, emitter: ElasticsearchEmitter) -> ElasticsearchEmitter:
        if emitter.doc_type is None:
            raise ProgramError(
                "Elasticsearch 6 needs a type of documents: static_index(index, key_field, "
                "doc_type). For 7 and newer use Elasticsearch7SinkBuilder."
            )
        return emitter
