"""Programs as people write them for PyFlink run after the change of imports alone.

Only the address of the broker and the names of topics are other ones, so that tests keep apart.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ported_programs import TIMEOUT_S, running, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_broker import Broker

PROGRAMS = Path(__file__).with_name("programs")

# Input of `wild-in` and `wild-more`; then what is printed, or is in `wild-out` and `wild-more`.
RUNS: dict[str, tuple[list[str], list[str], list[str], list[str], list[str]]] = {
    "consumer_of_flink_1.py": (["a", "b"], [], ["A", "B"], [], []),
    "json_of_flink_1.py": (
        ['{"user":"ann","amount":1}', '{"user":"bob","amount":2}', '{"user":"ann","amount":"3"}'],
        [],
        [],
        ['{"user":"ann","amount":1}', '{"user":"bob","amount":2}', '{"user":"ann","amount":4}'],
        [],
    ),
    "word_count.py": (["to be or", "not to be"], [], [], ["to: 2", "be: 2", "or: 1", "not: 1"], []),
    "minutes.py": (
        [
            '{"zone": "z", "at": "2026-01-01T00:00:10+00:00"}',
            '{"zone": "z", "at": "2026-01-01T00:01:20+00:00"}',
            '{"zone": "z", "at": "2026-01-01T00:00:59+00:00"}',
            '{"zone": "z", "at": "2026-01-01T00:03:00+00:00"}',
        ],
        [],
        ["z 1767225600000 2", "z 1767225660000 1"],
        [],
        [],
    ),
    "anomalies.py": (
        [
            '{"card_id": 1, "amount": 5.0}',
            '{"card_id": 2, "amount": 60.0}',
            '{"card_id": 1, "amount": 60.0}',
        ],
        [],
        [],
        ['{"card_id": 1, "amount": 60.0, "anomaly": true}'],
        [],
    ),
    "two_topics.py": (
        ['{"id": 1, "name": "Ann"}', '{"id": 2, "name": "Bob"}'],
        ["1,home", "2,cart", "1,cart"],
        ["Ann home", "Bob cart", "Ann cart"],
        [],
        [],
    ),
    "side_outputs.py": (['{"id": 1}', "oops"], [], [], ['{"id": 1}'], ["oops"]),
    "exactly_once.py": (["abc", "de"], [], [], ["cba", "ed"], []),
    "csv_averages.py": (["a;1.0", "b;5", "a;2"], [], [], ["a,1.5"], []),
    "producer.py": ([], [], [], ['{"id": 1, "name": "Ann"}', '{"id": 2, "name": "Bob"}'], []),
}


def test_every_program_is_run() -> None:
    assert RUNS.keys() == {path.name for path in PROGRAMS.glob("*.py")}


@pytest.mark.parametrize("name", RUNS)
def test_program(kafka: Broker, topic: Callable[..., str], tmp_path: Path, name: str) -> None:
    given, more, printed, written, also_written = RUNS[name]
    text = (PROGRAMS / name).read_text().replace("pyflink", "penstock")
    text = text.replace("localhost:9092", kafka.address)
    topics = {each: topic(each) for each in ("wild-in", "wild-more", "wild-out")}
    for wanted, own in topics.items():
        text = text.replace(f'"{wanted}"', f'"{own}"')
    kafka.produce(topics["wild-in"], given)
    kafka.produce(topics["wild-more"], more)
    program = tmp_path / name
    program.write_text(text)
    with running(program) as lines:
        wait_for(printed, lines)
        for where, expected in (("wild-out", written), ("wild-more", also_written)):
            deadline = time.monotonic() + TIMEOUT_S
            while expected:
                found = [value.decode() for value in kafka.values(topics[where])]
                if set(expected) <= set(found):
                    break
                seen = "\n".join(lines.queue)
                assert time.monotonic() < deadline, f"{found}\n{seen}"
                time.sleep(0.3)
