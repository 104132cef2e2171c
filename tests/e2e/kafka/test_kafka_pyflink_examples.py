"""PyFlink's own examples with Kafka run after the change of imports, and of the broker's address.

They are those of an installed PyFlink (`make bench` installs one).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ported_programs import TIMEOUT_S, running, wait_for

if TYPE_CHECKING:
    from kafka_broker import Broker

ROOT = Path(__file__).resolve().parents[3]
FOUND = sorted(ROOT.glob(".bench/pyflink/lib/python*/site-packages/pyflink/examples/datastream"))

pytestmark = pytest.mark.skipif(not FOUND, reason="PyFlink is not in .bench: see make bench")

WORDS = [(1, "hi"), (2, "hello"), (3, "hi"), (4, "hello"), (5, "hi"), (6, "hello"), (6, "hello")]


def ported(name: str, kafka: Broker, folder: Path) -> Path:
    text = (FOUND[0] / "connectors" / name).read_text()
    program = folder / name
    program.write_text(text.replace("pyflink", "penstock").replace("localhost:9092", kafka.address))
    return program


def rows() -> list[str]:
    return [f"+I[{number},{word}]" for number, word in WORDS]


@pytest.mark.parametrize(
    ("name", "topic", "printed"),
    [
        ("kafka_json_format.py", "test_json_topic", rows()),
        ("kafka_csv_format.py", "test_csv_topic", rows()),
        ("kafka_avro_format.py", "test_avro_topic", rows()),
        (
            "kafka_bytearray_format.py",
            "test_bytearray_topic",
            [
                '{"id": 1, "country": "USA"}',
                '{"id": 2, "country": "Canada"}',
                '{"id": 3, "country": "Germany"}',
            ],
        ),
    ],
)
def test_example(kafka: Broker, tmp_path: Path, name: str, topic: str, printed: list[str]) -> None:
    kafka.create_topic(topic, 2)
    with running(ported(name, kafka, tmp_path)) as lines:
        wait_for(printed, lines)


def test_row_field_extractor(kafka: Broker, tmp_path: Path) -> None:
    topic = kafka.create_topic("row-extractor-example", 3)
    program = ported("kafka_row_field_extractor_example.py", kafka, tmp_path)
    settings = json.dumps({"penstock.spark.master": "in-process"})
    subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PENSTOCK_DYNAMIC_PROPERTIES": settings},
        timeout=TIMEOUT_S,
        check=True,
    )
    found = {
        (message.key(), json.loads(message.value())["type"]) for message in kafka.messages(topic)
    }
    assert found == {
        (b"user-001", "purchase"),
        (b"user-002", "view"),
        (b"user-001", "add_to_cart"),
        (b"user-003", "purchase"),
    }
