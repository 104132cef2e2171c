"""Any server as a sink: requests with records, at least once.

HttpSink("https://shop.example/hooks", batch_size=100)
HttpSink("https://shop.example/items", method="PUT", path=lambda row: f"/{row.id}")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.connectors.sink import Committer, Sink, SinkWriter, WriterContext
from penstock.connectors.user_sink import NothingToCommit
from penstock.connectors.web.client import HttpClient, HttpSettings, checked_hosts
from penstock.core.errors import ProgramError, shorten

if TYPE_CHECKING:
    from penstock.connectors.serialization import SerializationSchema

_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
_JSON: Final = "application/json"


class HttpSink(Sink):
    """Sends records to an address.

    Args:
        url: The address, with a login if the server wants one: `https://user:password@host/path`.
        method: `POST`, `PUT`, `PATCH` or `DELETE`.
        path: Returns what is added to the address for a record, such as its id; with `PUT`, what a
            failure repeats then changes nothing.
        headers: Further headers, or a function that returns them for a record: a server may tell by
            an `Idempotency-Key` what it has already.
        serializer: Makes the body of a record; JSON unless given.
        batch_size: How many records are one request, as a JSON array.
    """

    def __init__(  # noqa: PLR0913
        self,
        url: str,
        *,
        method: str = "POST",
        path: Callable[[Any], str] | None = None,
        headers: Mapping[str, str] | Callable[[Any], Mapping[str, str]] | None = None,
        serializer: SerializationSchema | None = None,
        batch_size: int = 1,
    ) -> None:
        checked_hosts((url,), "an HttpSink")
        if method not in _METHODS:
            raise ProgramError(f"an HttpSink takes a method of {', '.join(_METHODS)}: {method!r}.")
        if batch_size < 1 or (batch_size > 1 and (path or serializer or callable(headers))):
            raise ProgramError(
                f"batch_size={batch_size} of an HttpSink: requests with several records are JSON "
                "arrays, without path, headers or serializer of a record."
            )
        self._http = HttpSettings((url,))
        self._method = method
        self._path = path
        self._headers = headers or {}
        self._serializer = serializer
        self._batch_size = batch_size
        self._client: HttpClient | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def create_writer(self, context: WriterContext) -> SinkWriter:
        if self._client is None:
            self._client = HttpClient(self._http)
        return _Writer(self)

    def create_committer(self) -> Committer:
        return NothingToCommit()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def default_name(self) -> str:
        return "HTTP Sink"

    def send(self, records: list[Any]) -> None:
        """Sends one request."""
        assert self._client is not None
        record = records if self._batch_size > 1 else records[0]
        headers = {} if self._serializer else {"Content-Type": _JSON}
        headers |= self._headers(record) if callable(self._headers) else self._headers
        body = _encode(record) if self._serializer is None else self._serializer.serialize(record)
        path = "" if self._path is None else self._path(record)
        self._client.send(self._method, path, body, headers)


class _Writer(SinkWriter):
    def __init__(self, sink: HttpSink) -> None:
        self._sink = sink
        self._records: list[Any] = []

    def write(self, values: list[Any], timestamps: list[int] | None, watermark: int) -> None:
        size = self._sink._batch_size
        self._records += values
        whole = len(self._records) - len(self._records) % size
        for start in range(0, whole, size):
            self._sink.send(self._records[start : start + size])
        del self._records[:whole]

    def prepare_commit(self) -> list[Any]:
        if self._records:
            self._sink.send(self._records)
            self._records = []
        return []


def _encode(record: Any) -> bytes:
    try:
        return msgspec.json.encode(record, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise ProgramError(
            f"the record {shorten(record)} of an HttpSink cannot be JSON: {error}. Convert it in a "
            "map(), or give the sink a serializer."
        ) from error


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict(True)
    raise TypeError(f"it has a {type(value).__name__} in it")
