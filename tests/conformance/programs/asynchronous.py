"""Asynchronous calls: what they return arrives once, and no watermark overtakes it."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.common import Time
from penstock.datastream import AsyncDataStream
from penstock.datastream.functions import AsyncFunction
from penstock.datastream.window import TumblingEventTimeWindows

from . import program
from .kit import timed


class Ask(AsyncFunction):
    """Every third call takes much longer than the others."""

    async def async_invoke(self, value: tuple[str, int]) -> list[Any]:
        await asyncio.sleep(0.02 if value[1] % 3 == 0 else 0.0005)
        return [(value[0], value[1] * 2, value[1])]


EVENTS = [("ab"[number % 2], number) for number in range(60)]


@program(spark=True, ordered=True)
def ordered_calls(env):
    stream = AsyncDataStream.ordered_wait(
        env.from_collection(EVENTS).set_parallelism(1), Ask(), Time.seconds(60), 7
    ).set_parallelism(1)
    return stream, [(key, number * 2, number) for key, number in EVENTS]


@program(spark=True)
def unordered_calls(env):
    stream = AsyncDataStream.unordered_wait(env.from_collection(EVENTS), Ask(), Time.seconds(60), 7)
    return stream, [(key, number * 2, number) for key, number in EVENTS]


def _per_window(wait: Any, env: Any) -> tuple[Any, list[Any]]:
    """Counts windows of ten behind the calls; a record behind its watermark would be dropped."""
    stream = (
        wait(timed(env, EVENTS), Ask(), Time.seconds(60), 7)
        .key_by(lambda record: record[0])
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .process(lambda key, context, found: [(key, context.window().start, len(list(found)))])
    )
    return stream, [(key, start, 5) for start in range(0, 60, 10) for key in "ab"]


@program(spark=True)
def windows_behind_ordered_calls(env):
    return _per_window(AsyncDataStream.ordered_wait, env)


@program()
def windows_behind_unordered_calls(env):
    return _per_window(AsyncDataStream.unordered_wait, env)
