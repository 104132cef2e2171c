"""What people look for on a stream and do not find there: where it is instead."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from penstock.core.errors import UnsupportedError

__all__ = ["RefusedMethods", "missing_method"]

_KEYED: Final = "that is on keyed streams: key_by(...).{name}(...)"
_WINDOWED: Final = (
    "that is for windows: key_by(...).window(...).{name}(...), or window_all(...).{name}(...)"
)

_ON_STREAM: Final = {
    "window": _KEYED + ", or window_all(...) over all records",
    "count_window": _KEYED,
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
    "groupBy": "it is key_by(...) here",
    "group_by": "it is key_by(...) here",
    "withWatermark": "it is assign_timestamps_and_watermarks(...) here",
    "writeStream": "write with sink_to(...), or to_spark(...) for Spark's formats",
    "foreachBatch": "it is to_spark(function) here",
    "show": "it is print() here, followed by env.execute()",
    "collect": "it is execute_and_collect() here",
    "execute": "that is on the environment: env.execute()",
}
_CLASSES: Final = {
    "DataStream": _ON_STREAM,
    "KeyedStream": {name: text for name, text in _ON_STREAM.items() if not text.startswith(_KEYED)},
}


def missing_method(kind: str, name: str) -> str:
    """Returns the text of the error for a name that a class does not have."""
    text = f"{kind!r} object has no attribute {name!r}"
    found = _CLASSES.get(kind, {}).get(name)
    return text if found is None else f"{text}; {found.format(name=name)}."


class RefusedMethods:
    """What Flink has, or had, on a stream and Penstock has not."""

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
