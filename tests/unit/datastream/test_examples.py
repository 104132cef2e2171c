"""Every public method has an example in its docstring, which prints what it shows.

In an example stand, beside the names of PyFlink that it uses: `env`, an environment; `events`, a
stream with event time of `("a", 1_000)`, `("a", 4_000)` and `("a", 12_000)`; `folder`, the path of
an empty one; and state as a function has it, of one key: `count` (a value), `seen` (a list),
`prices` (a map), `largest` (reducing); and `limits`, broadcast. Examples of Spark are run in
`tests/spark/test_examples_on_spark.py`.
"""

from __future__ import annotations

import doctest
import inspect
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from penstock import common, datastream
from penstock.common import Types, WatermarkStrategy
from penstock.core.times import EpochClock
from penstock.datastream import (
    AllWindowedStream,
    BroadcastConnectedStream,
    ConnectedStreams,
    DataStream,
    KeyedStream,
    SlotSharingGroup,
    StreamExecutionEnvironment,
    TimeCharacteristic,
    WindowedStream,
    connectors,
    functions,
    state,
    window,
)
from penstock.datastream.formats import avro
from penstock.files.area import FileArea
from penstock.state.backend import create_backend
from penstock.state.operator_state import OperatorState

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
ON_SPARK = {"EndOfStream.to_spark", "StreamExecutionEnvironment.from_spark"}


def largest_of(a: int, b: int) -> int:
    return max(a, b)


@pytest.fixture
def names(env: StreamExecutionEnvironment, tmp_path: Path) -> dict[str, Any]:
    backend = create_backend("hashmap").create_state(
        0, 127, 128, FileArea(tmp_path), EpochClock(), "op"
    )
    backend.restore(())
    backend.key = "a"
    folder = tmp_path / "folder"
    folder.mkdir()
    modules = (common, datastream, connectors, avro, functions, state, window)
    public = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {
        **public,
        "SlotSharingGroup": SlotSharingGroup,
        "TimeCharacteristic": TimeCharacteristic,
        "json": json,
        "sys": sys,
        "zipfile": zipfile,
        "env": env,
        "count": backend.get_state(state.ValueStateDescriptor("count", Types.INT())),
        "seen": backend.get_state(state.ListStateDescriptor("seen", Types.STRING())),
        "prices": backend.get_state(
            state.MapStateDescriptor("prices", Types.STRING(), Types.INT())
        ),
        "largest": backend.get_state(
            state.ReducingStateDescriptor("largest", largest_of, Types.INT())
        ),
        "limits": OperatorState().get_broadcast_state(
            state.MapStateDescriptor("limits", Types.STRING(), Types.INT())
        ),
        "folder": folder,
    }


@pytest.mark.parametrize("name", sorted(set(WITH_EXAMPLE) - ON_SPARK))
def test_example(name: str, names: dict[str, Any]) -> None:
    told: list[str] = []
    text = inspect.getdoc(METHODS[name]) or ""
    if "events." in text:
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
            lambda event, _: event[1]
        )
        records = names["env"].from_collection([("a", 1_000), ("a", 4_000), ("a", 12_000)])
        names["events"] = records.assign_timestamps_and_watermarks(times)
    example = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not told, "".join(told)


def test_every_public_method_has_an_example() -> None:
    assert sorted(set(METHODS) - set(WITH_EXAMPLE)) == []
