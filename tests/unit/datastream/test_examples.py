"""Examples in the docstrings of public methods print what they show; who has none is listed.

`no_example.txt` may shrink, and grows for no new method. In an example stand, beside the names of
PyFlink that it uses: `env`, an environment; `events`, a stream with event time of `("a", 1_000)`,
`("a", 4_000)` and `("a", 12_000)`; and state of one key as a function has it: `count` (a value),
`seen` (a list), `prices` (a map), `largest` (reducing).
"""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

from penstock.common import (
    Configuration,
    Duration,
    RestartStrategies,
    Time,
    Types,
    WatermarkStrategy,
)
from penstock.core.clock import EpochClock
from penstock.core.file_area import FileArea
from penstock.datastream import (
    AggregateFunction,
    AllWindowedStream,
    BroadcastConnectedStream,
    CoMapFunction,
    ConnectedStreams,
    DataStream,
    EmbeddedRocksDBStateBackend,
    KeyedStream,
    OutputTag,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    WindowedStream,
    state,
)
from penstock.datastream.connectors import NumberSequenceSource
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    CountTumblingWindowAssigner,
    TumblingEventTimeWindows,
)
from penstock.state.backend import create_backend

LISTED = Path(__file__).parent / "no_example.txt"
CLASSES = [
    StreamExecutionEnvironment,
    DataStream,
    KeyedStream,
    WindowedStream,
    AllWindowedStream,
    ConnectedStreams,
    BroadcastConnectedStream,
    state.ValueState,
    state.ListState,
    state.MapState,
    state.ReducingState,
    state.AggregatingState,
    state.BroadcastState,
]


def methods() -> dict[str, Any]:
    """Public methods by the class that defines them; what is only refused needs no example."""
    found = {}
    for kind in CLASSES:
        for name, _ in inspect.getmembers(kind, callable):
            owner = next(each for each in kind.__mro__ if name in vars(each))
            method = getattr(owner, name)
            doc = inspect.getdoc(method) or ""
            if name.startswith("_") or not owner.__module__.startswith("penstock."):
                continue
            if doc.startswith("Not supported") or "NoReturn" in str(
                getattr(method, "__annotations__", {}).get("return")
            ):
                continue
            found[f"{owner.__name__}.{name}"] = method
    return found


METHODS = methods()
WITH_EXAMPLE = [name for name, method in METHODS.items() if ">>>" in (method.__doc__ or "")]


def largest_of(a: int, b: int) -> int:
    return max(a, b)


@pytest.fixture
def names(env: StreamExecutionEnvironment, tmp_path: Path) -> dict[str, Any]:
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda event, _: event[1]
    )
    records = env.from_collection([("a", 1_000), ("a", 4_000), ("a", 12_000)])
    backend = create_backend("hashmap").create_state(
        0, 127, 128, FileArea(tmp_path), EpochClock(), "op"
    )
    backend.restore(())
    backend.key = "a"
    return {
        "env": env,
        "events": records.assign_timestamps_and_watermarks(times),
        "count": backend.get_state(state.ValueStateDescriptor("count", Types.INT())),
        "seen": backend.get_state(state.ListStateDescriptor("seen", Types.STRING())),
        "prices": backend.get_state(
            state.MapStateDescriptor("prices", Types.STRING(), Types.INT())
        ),
        "largest": backend.get_state(
            state.ReducingStateDescriptor("largest", largest_of, Types.INT())
        ),
        "AggregateFunction": AggregateFunction,
        "CoMapFunction": CoMapFunction,
        "Configuration": Configuration,
        "CountEvictor": CountEvictor,
        "CountTrigger": CountTrigger,
        "CountTumblingWindowAssigner": CountTumblingWindowAssigner,
        "Duration": Duration,
        "EmbeddedRocksDBStateBackend": EmbeddedRocksDBStateBackend,
        "NumberSequenceSource": NumberSequenceSource,
        "OutputTag": OutputTag,
        "RestartStrategies": RestartStrategies,
        "RuntimeExecutionMode": RuntimeExecutionMode,
        "StreamExecutionEnvironment": StreamExecutionEnvironment,
        "Time": Time,
        "TumblingEventTimeWindows": TumblingEventTimeWindows,
        "Types": Types,
        "WatermarkStrategy": WatermarkStrategy,
    }


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_example(name: str, names: dict[str, Any]) -> None:
    told: list[str] = []
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(METHODS[name]) or "", names, name, None, 0
    )
    doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not told, "".join(told)


def test_methods_without_an_example_become_fewer() -> None:
    listed = LISTED.read_text().split()
    without = sorted(set(METHODS) - set(WITH_EXAMPLE))
    new = sorted(set(without) - set(listed))
    assert not new, f"give them an example in their docstring: {new}"
    done = sorted(set(listed) - set(without))
    assert not done, f"take them from {LISTED.name}: {done}"
