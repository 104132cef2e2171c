"""Jobs that fail on purpose, settings for them, and what their results must be."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

IN_PROCESS = "in-process"


class Faults:
    """Failures that happen once each, by name; they live in the process of the test."""

    hit: ClassVar[set[str]] = set()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def once(cls, name: str) -> None:
        """Raises the first time it is called with a name."""
        with cls._lock:
            if name in cls.hit:
                return
            cls.hit.add(name)
        raise RuntimeError(f"fault {name}")


def settings(directory: Path, **more: str) -> Configuration:
    """Frequent checkpoints into files, quick restarts, small epochs."""
    values = {
        "penstock.spark.master": IN_PROCESS,
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "penstock.epoch.max-records": "50",
        "io.tmp.dirs": str(directory / "tmp"),
    }
    values |= {key.replace("__", "."): value for key, value in more.items()}
    configuration = Configuration()
    for key, value in values.items():
        if value:
            configuration.set_string(key, value)
    return configuration


def environment(
    directory: Path, parallelism: int = 1, options: dict[str, str] | None = None
) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(
        settings(directory, **(options or {}))
    )
    env.set_parallelism(parallelism)
    return env


def failing_at(records: Iterable[Any], name: str) -> Callable[[Any], Any]:
    """A map function that fails once for each of these records."""
    chosen = set(records)

    def check(value: Any) -> Any:
        if value in chosen:
            Faults.once(f"{name}-{value}")
        return value

    return check


def collected(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def same(found: Iterable[Any], expected: Iterable[Any]) -> None:
    """Compares as multisets, and says what is lost and what is doubled."""
    found_counts, expected_counts = Counter(found), Counter(expected)
    lost, extra = expected_counts - found_counts, found_counts - expected_counts
    assert not lost and not extra, f"lost {_few(lost)}, too many {_few(extra)}"


def _few(counts: Counter[Any]) -> str:
    return f"{counts.total()} {sorted(counts.items(), key=repr)[:5]}"
