"""What may stand at the end of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.connectors.collect import PrintSink, format_row
from penstock.connectors.sink import Sink
from penstock.connectors.user_sink import FunctionSink, SinkFunction
from penstock.core.errors import ProgramError
from penstock.core.partitioning import Forward
from penstock.core.row import Row
from penstock.core.types import PickledBytesTypeInfo, RowTypeInfo, TypeInformation, Types
from penstock.operators.adapters import check_methods
from penstock.operators.functions import Function

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.common.job_client import JobClient
    from penstock.connectors.collect import CollectedResults
    from penstock.datastream.plain_stream import DataStream

__all__ = ["CloseableIterator", "as_sink", "collect", "formatter_of", "print_sink", "text_of"]


# What `print()` and `FileSink` write: records of a declared type look as they do in PyFlink.
#
# There, rows are written by Python and all other declared types by Java: `+I[a,1]`, `(a,1)`,
# `[1, 2]`, `{a=1}`, `true`. Records without a declared type are written by `str`.


def formatter_of(type_info: TypeInformation) -> Callable[[Any], str]:
    """Returns what makes the text of a record of a type."""
    if isinstance(type_info, RowTypeInfo):
        return format_row
    if isinstance(type_info, PickledBytesTypeInfo) or type_info == Types.STRING():
        return str
    return java_text


def text_of(type_info: TypeInformation) -> Callable[[Any], str]:
    """Returns what makes the text of a record in a file, where Java writes rows as well."""
    return java_text if isinstance(type_info, RowTypeInfo) else formatter_of(type_info)


def java_text(value: Any) -> str:
    """Returns the text that Java's `toString` would give."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{', '.join(map(java_text, value))}]"
    if isinstance(value, tuple):
        return f"({','.join(map(java_text, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(java_text, value))}]"
    if isinstance(value, dict):
        pairs = (f"{java_text(key)}={java_text(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return str(value)


def as_sink(sink: Any, verb: str) -> Sink:
    """Returns a sink of a sink, of a `SinkFunction`, or of a function of a record."""
    if isinstance(sink, Sink | SinkFunction):
        check_methods(sink)
        return sink if isinstance(sink, Sink) else FunctionSink(sink)
    if callable(sink) and not isinstance(sink, type | Function):
        return FunctionSink(_Called(sink))
    if hasattr(sink, "build"):
        hint = " Call .build() on the builder first."
    elif isinstance(sink, type):
        hint = " Pass an instance: are the brackets missing?"
    else:
        hint = " Take one of penstock.datastream.connectors, or subclass PythonSink."
    raise ProgramError(f"{verb} takes a sink, but got {sink!r:.80}.{hint}")


class _Called(SinkFunction):
    """A plain function of a record as a sink."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def invoke(self, value: Any, context: Any) -> None:
        self._function(value)


def print_sink(sink_identifier: str | None, type_info: TypeInformation, *, to_stderr: bool) -> Sink:
    """Returns the sink of `print()`; declared rows are printed as PyFlink prints them."""
    if sink_identifier is not None and not isinstance(sink_identifier, str):
        raise ProgramError(f"print() takes a text to put before lines, not {sink_identifier!r}.")
    return PrintSink(sink_identifier, to_stderr=to_stderr, formatter=formatter_of(type_info))


_MAX_BUFFERED = 100_000
_numbers = itertools.count(1)


class CloseableIterator:
    """Iterates over the records of a running job; closing it cancels the job.

    Use it in a `with` statement, or call `close()`.
    """

    def __init__(self, results: CollectedResults, job_client: JobClient) -> None:
        self._results = results
        self._records: Iterator[Any] = iter(results)
        self._job_client = job_client

    def get_job_client(self) -> JobClient:
        """Returns the client of the job."""
        return self._job_client

    def next(self) -> Any:
        """Returns the next record; waits for it."""
        return next(self)

    def close(self) -> None:
        """Cancels the job unless it has ended."""
        self._results.close()
        if not self._job_client._job.result.done():
            self._job_client.cancel()
            self._job_client._wait_quietly()

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._records)

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def collect(
    stream: DataStream, job_name: str | None, limit: int | None
) -> CloseableIterator | list[Any]:
    """Appends a collecting sink, starts the job, returns an iterator or the first records."""
    from penstock.connectors.collect import CollectedResults, CollectSink

    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ProgramError(f"execute_and_collect() got limit={limit!r}; it must be 1 or more.")
    name = f"collect-{next(_numbers)}"
    sink = stream._sink(CollectSink(name))
    parallelism = _parallelism_before(stream)
    if parallelism is not None:
        sink.set_parallelism(parallelism)
    results = CollectedResults(name, max_buffered=_MAX_BUFFERED)
    try:
        client = stream._environment.execute_async(job_name or "DataStream Collect")
    except BaseException:
        results.close()
        raise

    def finish(result: Future[Any]) -> None:
        results.finish(None if result.cancelled() else result.exception())

    client._job.result.add_done_callback(finish)
    iterator = CloseableIterator(results, client)
    if limit is None:
        return iterator
    with iterator:
        return list(itertools.islice(iterator, limit))


def _parallelism_before(stream: DataStream) -> int | None:
    """Returns the parallelism of the operator before; with the same, its order is kept."""
    given = stream._inputs[0]
    if len(stream._inputs) > 1 or given.partitioning != Forward():
        return None
    return stream._environment._program.nodes[given.node_id].parallelism
