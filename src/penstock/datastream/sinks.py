"""The end of a stream: sinks, prints and collected records."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, overload

from penstock.connectors.collect import CollectedResults, PrintSink, format_row
from penstock.connectors.sink import Sink
from penstock.connectors.user_sink import FunctionSink, SinkFunction
from penstock.core.errors import ProgramError
from penstock.core.row import Row
from penstock.core.types import PickledBytesTypeInfo, RowTypeInfo, TypeInformation, Types
from penstock.datastream.notebook import as_table
from penstock.datastream.stream_view import DataStreamSink, StreamView
from penstock.graph.nodes import Forward, NodeKind
from penstock.operators.adapters import check_methods
from penstock.operators.functions import Function

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.common.job_client import JobClient

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


class EndOfStream(StreamView):
    """What a stream can end with."""

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Writes the records to a sink.

        Example:
            >>> encoder = Encoder.simple_string_encoder()
            >>> lines = FileSink.for_row_format(str(folder), encoder).build()
            >>> _ = env.from_collection(["a", "b"], Types.STRING()).sink_to(lines)
            >>> _ = env.execute()
            >>> [path.read_text().split() for path in folder.rglob("part-*")]
            [['a', 'b']]
        """
        return self._sink(as_sink(sink, "sink_to()").with_text(text_of(self._type_info)))

    def to_spark(
        self, function: Callable[[Any, int], None] | None = None, **settings: Any
    ) -> DataStreamSink:
        """Writes through Spark, by a function or in a format.

        Args:
            function: Called as `function(df, epoch_id)`, as with `foreachBatch`.
            **settings: Of a `SparkSink`: `output_format`, `path`, `options`, `partition_by`, and
                `schema`: names of columns for records that are tuples, or a `StructType` or
                `pyarrow.Schema` with their types.

        Example:
            >>> def write(data_frame, epoch):
            ...     data_frame.write.mode("append").parquet(str(folder / "words"))
            >>> words = env.from_collection(["to", "be"])
            >>> schema = Types.ROW_NAMED(["word"], [Types.STRING()])
            >>> _ = words.map(lambda word: Row(word=word), schema).to_spark(write)
            >>> _ = env.execute()
            >>> (folder / "words").is_dir()
            True
        """
        from penstock.connectors.spark import SparkSink

        if (mode := settings.pop("mode", "append")) != "append":
            raise ProgramError(
                f"mode {mode!r}: a stream can only append. For anything else give a function, "
                "which may write each DataFrame as it likes."
            )
        return self._sink(SparkSink(function, **settings))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Writes the records to a sink; the older name of `sink_to`.

        Example:
            >>> class Collect(SinkFunction):
            ...     seen = []
            ...
            ...     def invoke(self, value, context):
            ...         self.seen.append(value)
            >>> _ = env.from_collection([1, 2]).add_sink(Collect())
            >>> _ = env.execute()
            >>> Collect.seen
            [1, 2]
        """
        return self.sink_to(as_sink(sink_func, "add_sink()"))

    def print(
        self, sink_identifier: str | None = None, *, to_stderr: bool = False
    ) -> DataStreamSink:
        """Prints every record, with the subtask in front when there are several.

        Example:
            >>> _ = env.from_collection(["a", "b"]).print()
            >>> _ = env.from_collection([1]).print("numbers")
            >>> _ = env.execute()
            a
            b
            numbers> 1
        """
        return self._sink(print_sink(sink_identifier, self._type_info, to_stderr=to_stderr))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator: ...
    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int = ...
    ) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Runs the program and returns the records of this stream.

        Args:
            job_execution_name: Name of the job.
            limit: With a limit a list of at most that many records is returned and the job is
                cancelled then; otherwise an iterator, which must be closed (`with` does).

        Example:
            >>> with env.from_collection([1, 2]).execute_and_collect() as records:
            ...     sum(records)
            3
        """
        return collect(self, job_execution_name, limit)

    def take(self, limit: int = 20) -> list[Any]:
        """Runs the program and returns the first records of this stream, then cancels the job.

        For notebooks and trials: the rest of the program runs until then, too.

        Example:
            >>> env.from_sequence(1, 1_000_000).take(3)
            [1, 2, 3]
        """
        return self.execute_and_collect("DataStream Take", limit)

    def show(self, limit: int = 20) -> None:
        """Runs the program and prints the first records, in columns if they have names.

        For notebooks and trials: the rest of the program runs until then, too.

        Example:
            >>> env.from_collection([{"name": "Ada", "year": 1815}]).show()
            name  year
            Ada   1815
        """
        print(as_table(self.take(limit)))

    def _sink(self, sink: Sink) -> DataStreamSink:
        from penstock.runtime.lowering import SinkSpec

        node_id = self._environment._program.append(
            NodeKind.SINK, sink.default_name(), SinkSpec(sink), self._inputs
        )
        return DataStreamSink(self._environment, node_id)


def collect(
    stream: EndOfStream, job_name: str | None, limit: int | None
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


def _parallelism_before(stream: EndOfStream) -> int | None:
    """Returns the parallelism of the operator before; with the same, its order is kept."""
    given = stream._inputs[0]
    if len(stream._inputs) > 1 or given.partitioning != Forward():
        return None
    return stream._environment._program.nodes[given.node_id].parallelism
