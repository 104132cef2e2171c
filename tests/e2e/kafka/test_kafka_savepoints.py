"""A job between two topics goes on from savepoints: rescaled, moved, changed; each record once."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING

from kafka_kill_job import KEYS, build
from kafka_kills import verify
from kafka_kit import configuration

if TYPE_CHECKING:
    from pathlib import Path

    from kafka_broker import Broker

PATIENCE_S = 200


def written(broker: Broker, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(broker.values("out")) < count:
        assert time.monotonic() < deadline, f"{len(broker.values('out'))} of {count} records"
        time.sleep(0.1)


def test_rescaled_moved_and_changed(kafka: Broker, tmp_path: Path) -> None:
    """4 -> 6 -> 2 subtasks; between them savepoints move, and everything else is deleted."""
    broker = kafka
    broker.create_topic("in", 4)
    broker.create_topic("out", 2)
    start, produced = "", 0
    for number, parallelism in enumerate((4, 6, 2)):
        home = tmp_path / f"home-{number}"
        settings = configuration(
            home / "checkpoints",
            io_tmp_dirs=str(home / "tmp"),
            execution_checkpointing_data__inline__threshold="1 kb",
            **({"execution_state__recovery_path": start} if start else {}),
        )
        # The last one is another program: the names and the shape changed, the uids did not.
        env = build(settings, broker.address, parallelism, padding=500, is_changed=number == 2)
        client = env.execute_async(f"run {number}")
        broker.produce("in", map(str, range(produced, produced + 2_000)))
        written(broker, produced + 1_000)
        if number == 1:
            # A partition more while it runs; the next job finds it at its start.
            broker.add_partitions("in", 5)
        saved = client.stop_with_savepoint(False, str(home / "savepoints")).result(PATIENCE_S)
        client.get_job_execution_result().result(PATIENCE_S)
        produced += 2_000
        start = str(tmp_path / f"moved-{number}")
        shutil.move(saved, start)
        shutil.rmtree(home)
    home = tmp_path / "last"
    settings = configuration(home / "checkpoints", execution_state__recovery_path=start)
    client = build(settings, broker.address, 3, is_changed=True).execute_async("last")
    written(broker, produced)
    client.cancel().result(PATIENCE_S)
    verify(broker, Counter(number % KEYS for number in range(produced)))
