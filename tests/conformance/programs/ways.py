"""The ways in which every program runs in this process."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment


@dataclass(frozen=True)
class Way:
    """One way to run a program.

    Attributes:
        backend: State backend.
        parallelism: Default parallelism.
        epoch_records: Most records that all sources read in an epoch; None for no small bound.
        keep_subtasks: Subtasks stay between epochs; otherwise each epoch restores their versions.
    """

    backend: str
    parallelism: int
    epoch_records: int | None
    keep_subtasks: bool

    def __str__(self) -> str:
        epochs = "large" if self.epoch_records is None else f"epochs-of-{self.epoch_records}"
        cache = "kept" if self.keep_subtasks else "restored"
        return f"{self.backend}-{self.parallelism}-{epochs}-{cache}"

    def environment(self, master: str = "in-process") -> StreamExecutionEnvironment:
        """Makes an environment for it."""
        configuration = Configuration()
        configuration.set_string("penstock.spark.master", master)
        configuration.set_string("state.backend.type", self.backend)
        if self.epoch_records is not None:
            configuration.set_string("penstock.epoch.max-records", str(self.epoch_records))
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(self.parallelism)
        return env


WAYS = [
    Way("hashmap", 1, None, True),
    Way("hashmap", 3, 3, True),
    Way("hashmap", 3, 1, False),
    Way("rocksdb", 1, 3, False),
    Way("rocksdb", 3, 3, True),
    Way("rocksdb", 3, 3, False),
]
