"""A job between two topics dies at each step of a publication, and in other ways: each record once.

`make chaos-kafka KILLS=n` draws as many faults as asked for; here are those that touch every step.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from kafka_kills import KafkaRun
from kill_campaign import Fault, Tally, all_points

if TYPE_CHECKING:
    from pathlib import Path

    from kafka_broker import Broker

FAULTS = [
    Fault("kafka.send.before", "kill", 2),
    Fault("kafka.send.after", "exit", 3),
    Fault("kafka.commit.before", "kill", 2),
    Fault("kafka.commit.after", "kill", 2),
    Fault("kafka.commit.after", "hang", 1),
    Fault("sink.commit.after", "kill", 2),
    Fault("kafka.commit.after", "raise", 2),
    Fault("", "broker", 2),
    Fault("", "zombie", 2),
    Fault("", "kill", 1),
]


def test_killed_at_each_step_of_a_publication(mortal: Broker, tmp_path: Path) -> None:
    of_kafka = {point for point in all_points() if point.startswith("kafka.")}
    assert of_kafka == {fault.point for fault in FAULTS if fault.point.startswith("kafka.")}
    tally = Tally()
    run = KafkaRun(tmp_path, mortal, random.Random(1), tally)
    try:
        for fault in FAULTS:
            run.suffer(fault)
        run.finish()
    finally:
        run.close()
    assert tally.kills == len(FAULTS)
    assert not tally.missed


def test_a_build_that_ignores_its_markers_is_noticed(
    own_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_KILL_BREAK", "ignore_markers")
    run = KafkaRun(tmp_path, own_broker, random.Random(2), Tally())
    try:
        run.suffer(Fault("kafka.commit.after", "kill", 2))
        with pytest.raises(AssertionError, match="doubled"):
            run.finish()
    finally:
        run.close()
