"""A source that stands still where a test wants, and a job around it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from recovery_kit import environment

from penstock.datastream.connectors import PythonSink, PythonSource
from penstock.datastream.functions import CheckpointedFunction, KeyedProcessFunction, MapFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from penstock.common.job_client import JobClient

RETAIN = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
KEYS = 11


class Tap:
    """How far sources may read; never more than the test has allowed."""

    limit: ClassVar[int] = 0


class Numbers(PythonSource):
    """0, 1, 2 … as far as the tap allows; two splits: even and odd ones."""

    def splits(self) -> Iterable[str]:
        return ["0", "1"]

    def latest_offset(self, split: str) -> int:
        return (Tap.limit + 1 - int(split)) // 2

    def read(self, split: str, start: int, end: int) -> Iterable[Any]:
        return [2 * offset + int(split) for offset in range(start, end)]


class Visible(PythonSink):
    """Output that was committed, by name of the job's output; commits are remembered."""

    rows: ClassVar[dict[str, dict[str, list[Any]]]] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, context: Any) -> None:
        self.mine: list[Any] = []
        self.identity = f"{context.attempt_id}-{context.subtask}"

    def write(self, value: Any, context: Any) -> None:
        self.mine.append(value)

    def prepare_commit(self) -> list[Any]:
        return [[self.identity, self.mine]] if self.mine else []

    def commit(self, committables: list[Any], context: Any) -> None:
        target = Visible.rows.setdefault(self.name, {})
        for identity, mine in committables:
            target[identity] = list(map(tuple, mine))

    @classmethod
    def all(cls, name: str = "out") -> list[Any]:
        return [row for part in list(cls.rows.get(name, {}).values()) for row in part]


class Count(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, context: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield context.get_current_key(), count


class Remember(MapFunction, CheckpointedFunction):
    """List state: all values that came by, spread over the subtasks."""

    held: ClassVar[dict[int, list[int]]] = {}

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(
            ListStateDescriptor("values")
        )
        self.values = list(self.state.get())

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.values)

    def map(self, value: int) -> int:
        self.values.append(value)
        return value


def build(
    directory: Path,
    parallelism: int = 2,
    options: dict[str, str] | None = None,
    *,
    uid: str = "count",
    source_uid: str = "numbers",
    max_parallelism: int = 128,
    change: Callable[[Any], Any] = lambda stream: stream,
) -> Any:
    """Returns an environment with the job: numbers -> remember -> count by key -> visible."""
    env = environment(directory, parallelism, {**RETAIN, **(options or {})})
    env.set_max_parallelism(max_parallelism)
    numbers = env.add_source(Numbers()).uid(source_uid)
    remembered = numbers.map(Remember()).uid("remember")
    counted = change(remembered).key_by(lambda value: value % KEYS).process(Count()).uid(uid)
    counted.add_sink(Visible("out")).uid("sink")
    return env


def counts(end: int) -> list[tuple[int, int]]:
    """What the job shows for the numbers below `end`."""
    return [
        (key, count) for key in range(KEYS) for count in range(1, len(range(key, end, KEYS)) + 1)
    ]


def wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def run_to(client: JobClient, end: int) -> None:
    """Lets the job read up to `end` and waits until all of that is visible."""
    Tap.limit = end
    wait_for(lambda: len(Visible.all()) >= len(counts(end)), f"{end} records")


def cancel(client: JobClient) -> None:
    client.cancel()
    client._wait_quietly()
