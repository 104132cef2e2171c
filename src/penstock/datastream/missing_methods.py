"""Names that users expect on a stream or an environment, and what to use instead."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

from penstock.core.errors import UnsupportedError

_Method = TypeVar("_Method", bound=Callable[..., Any])

_KEYED: Final = "that is on keyed streams: key_by(...).{name}(...)"
_WINDOWED: Final = (
    "that is for windows: key_by(...).window(...).{name}(...), or window_all(...).{name}(...)"
)
_SQL: Final = (
    "do it in Spark, on the DataFrame that env.from_spark(...) is given; for single records there "
    "are map(...) and filter(...)"
)
_WRITE: Final = "write with sink_to(...), or to_spark(...) for Spark's formats"

_ON_STREAM: Final = {
    "window": _KEYED + ", or window_all(...) over all records",
    "count_window": _KEYED,
    "time_window": "use key_by(...).window(TumblingEventTimeWindows.of(...))",
    "reduce": _KEYED + ", or window_all(...).reduce(...) over all records",
    "sum": _KEYED,
    "min": _KEYED,
    "max": _KEYED,
    "min_by": _KEYED,
    "max_by": _KEYED,
    "interval_join": _KEYED,
    "apply": _WINDOWED,
    "aggregate": _WINDOWED,
    "allowed_lateness": _WINDOWED,
    "side_output_late_data": _WINDOWED,
    "trigger": _WINDOWED,
    "evictor": _WINDOWED,
    "group_by": "it is key_by(...) here",
    "where": "it is filter(...) here",
    "with_watermark": "it is assign_timestamps_and_watermarks(...) here",
    "foreach": "it is inspect(...) within a chain here, and add_sink(function) at its end",
    "foreach_batch": "it is to_spark(function) here",
    "union_all": "it is union(...) here",
    "union_by_name": "it is union(...) here",
    "select": _SQL,
    "with_column": _SQL,
    "agg": _SQL,
    "limit": "it is take(n) here, which runs the program and returns a list",
    "head": "it is take(n) here, which runs the program and returns a list",
    "distinct": "keep a ValueState by key: key_by(...).process(...)",
    "drop_duplicates": "keep a ValueState by key: key_by(...).process(...)",
    "to_pandas": "it is pandas.DataFrame(stream.execute_and_collect()) for a bounded stream",
    "write": _WRITE,
    "write_stream": _WRITE,
    "write_as_text": "write with sink_to(FileSink.for_row_format(...).build())",
    "write_as_csv": "write with FileSink.for_bulk_format(path, BulkWriterFactory.csv(...)).build()",
    "collect": "it is execute_and_collect() here",
    "execute": "that is on the environment: env.execute()",
}
_READ: Final = (
    "read with from_source(FileSource.for_record_stream_format({format}, path).build(), ...)"
)
_SPARK: Final = "read it with Spark: env.from_spark(spark.read...), or spark.readStream"
_ON_ENVIRONMENT: Final = {
    "read_json": _READ.format(format="StreamFormat.json_line_format()"),
    "read_csv": _READ.format(format="StreamFormat.csv_format()"),
    "read_csv_file": _READ.format(format="StreamFormat.csv_format()"),
    "read_text": "it is read_text_file(path) here",
    "read_parquet": (
        "read with from_source(FileSource.for_bulk_file_format(BulkFormat.parquet_format(), path)"
        ".build(), ...)"
    ),
    "read": _SPARK,
    "read_stream": _SPARK,
    "sql": "make a DataFrame with spark.sql(...) and a stream of it with env.from_spark(...)",
    "table": "make a DataFrame with spark.table(...) and a stream of it with env.from_spark(...)",
    "create_data_frame": "it is from_collection(records) here",
    "create_dataframe": "it is from_collection(records) here",
    "from_elements": "it is from_collection([...]) here",
    "parallelize": "it is from_collection(records) here",
    "get_or_create": "it is StreamExecutionEnvironment.get_execution_environment() here",
    "stop": "end a job with its client: env.execute_async().cancel()",
    "map": "make a stream first, as with from_collection(records)",
    "key_by": "make a stream first, as with from_collection(records)",
}
_KEYED_ONLY: Final = {
    name: text for name, text in _ON_STREAM.items() if not text.startswith(_KEYED)
}
_TABLES: Final = {
    "DataStream": _ON_STREAM,
    "KeyedStream": _KEYED_ONLY,
    "StreamExecutionEnvironment": _ON_ENVIRONMENT,
}


def earlier_keywords(**today: str) -> Callable[[_Method], _Method]:
    """Lets a method take keywords by the names that they had in Flink 1."""

    def decorate(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **{today.get(name, name): kwargs[name] for name in kwargs})

        return cast("_Method", call)

    return decorate


class Hints:
    """Names the right method in the error for one that does not exist."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            text = f"{kind.__name__!r} object has no attribute {name!r}"
            snake = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)
            hint = _TABLES.get(kind.__name__, {}).get(snake, "").format(name=snake)
            if snake != name and hasattr(kind, snake):
                hint = f"it is {snake}(...) here"
            raise AttributeError(f"{text}; {hint}." if hint else text, name=name, obj=self)


class RefusedMethods:
    """Methods of Flink's streams that Penstock does not have."""

    def cache(self) -> NoReturn:
        raise UnsupportedError(
            "cache() keeps a bounded result for later jobs of one session, which Penstock does not "
            "do. Write the stream with sink_to(FileSink...) and read it again with a FileSource."
        )

    def iterate(self, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(
            "iterate() feeds results back into a stream; Flink 2 has dropped it, and Penstock has "
            "never had it. Keep what goes round in keyed state and step on with timers, or write "
            "it where a source of the job reads it again, such as a watched directory."
        )
