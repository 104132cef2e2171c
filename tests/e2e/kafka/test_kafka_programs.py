"""Programs as people write them for PyFlink run after the change of imports alone.

Only the address of the broker and the names of topics are other ones, so that tests keep apart, and
no interval of checkpoints is a minute.
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
    "print_all.py": (["a", "b"], [], ["start reading data from kafka", "a", "b"], [], []),
    "alarms_of_flink_1.py": (
        [
            '{"thermometer": "x", "at": 1, "celsius": -1.5}',
            '{"thermometer": "y", "at": 2, "celsius": 20.0}',
        ],
        [],
        [],
        ['{"thermometer": "x", "at": 1, "celsius": -1.5}'],
        [],
    ),
    "row_statistics.py": (
        [
            '{"at": 1000, "disk": "a", "vault": 1001, "celsius": 20}',
            '{"at": 2000, "disk": "b", "vault": 1001, "celsius": 24}',
            '{"at": 3000, "disk": "c", "vault": 7, "celsius": 90}',
            '{"at": 86400001, "disk": "a", "vault": 1001, "celsius": 20}',
        ],
        [],
        [],
        ['{"start":0,"vault":1001,"count":2,"mean":22.0,"deviation":2.0}'],
        [],
    ),
    # Avro: the length of a text, twice, and its letters.
    "avro_advice.py": (["\6abc\2E"], [], [], ["\6abc\x08SELL"], []),
    "sliding_alarms.py": (
        [
            '[{"at": 1000, "value": 10.0, "card": 1}, {"at": 2000, "value": -5.0, "card": 2}]',
            '{"at": 3000, "value": 101.0, "card": 1}',
            '{"at": 20000, "value": 1.0, "card": 3}',
        ],
        [],
        ['{"card": 2, "kind": "negative"}'],
        ['{"card": 1, "value": 101.0}'],
        ['{"card": 2, "kind": "negative"}'],
    ),
    "execute_async.py": ([], [], ["job 32", "ran True"], ["hello", "world"], []),
    "rows_exactly_once.py": (
        [],
        [],
        [],
        ['{"id":1,"name":"Ann"}', '{"id":2,"name":"Bob"}'],
        [],
    ),
    "unused_tables.py": (
        ['{"user": 1, "amount": 5}', '{"user": 1, "amount": 6}'],
        [],
        ["{'user': 1, 'amount': 6, 'last': [5, 6]}"],
        [],
        [],
    ),
    "csv_both_ways.py": (["1,a", "oops", '2,"b;c"'], [], [], ["10;a\n", '20;"b;c"\n'], []),
    "late_events.py": (
        [
            '{"user": "a", "at": 1500}',
            '{"user": "a", "at": 1900}',
            '{"user": "b", "at": 9000}',
        ],
        [],
        [],
        ["a 2", "b 1"],
        [],
    ),
    "sessions.py": (
        ['{"user": "a", "at": 100}', '{"user": "a", "at": 400}', '{"user": "a", "at": 2000}'],
        [],
        ["a 100-900 2", "a 2000-2500 1"],
        [],
        [],
    ),
    "timeouts.py": (
        ['{"user": "a", "at": 100, "page": "x"}', '{"user": "a", "at": 400, "page": "y"}'],
        [],
        ["a left at 1400 after ['x', 'y']"],
        [],
        [],
    ),
    "rules.py": (["a1", "b1"], ["a=x"], ["rule of a: x", "b1 no rule"], [], []),
    "union_and_selector.py": (
        ['{"n": 1, "ok": true}', '{"n": 2, "ok": false}'],
        [],
        [],
        ['{"n": 1, "ok": true}', '{"n": 3, "ok": true}'],
        ['{"n": 2, "ok": false}'],
    ),
    "processing_time.py": (['{"sensor": "s", "value": 3}'], [], ["s=3"], [], []),
    "settings_of_a_cluster.py": (["a", "b"], [], [], ["A", "B"], []),
    "pattern_and_count.py": (
        ["a", "b", "c", "d", "e"],
        [],
        ["batch 1: a b", "batch 2: c d"],
        [],
        [],
    ),
    "bad_lines.py": (
        ['{"plant": "p", "metric": "m", "value": 1}', "oops"],
        [],
        [
            "{'plant': 'p', 'metric': 'm', 'value': 1}",
            '{"reason": "invalid json", "original": "oops"}',
        ],
        [],
        [],
    ),
    "aggregate_and_idle.py": (["1,10", "2,20", "20,7"], [], ["15.0"], [], []),
    "files_of_lines.py": (["x"], [], ["x"], ["one", "two"], []),
    "producer.py": ([], [], [], ['{"id": 1, "name": "Ann"}', '{"id": 2, "name": "Bob"}'], []),
}


def test_every_program_is_run() -> None:
    assert RUNS.keys() == {path.name for path in PROGRAMS.glob("*.py")}


@pytest.mark.parametrize("name", RUNS)
def test_program(kafka: Broker, topic: Callable[..., str], tmp_path: Path, name: str) -> None:
    given, more, printed, written, also_written = RUNS[name]
    text = (PROGRAMS / name).read_text().replace("pyflink", "penstock")
    text = text.replace("localhost:9092", kafka.address)
    # What is printed shows with a checkpoint.
    text = text.replace("enable_checkpointing(60_000)", "enable_checkpointing(500)")
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
                assert "Traceback" not in seen and time.monotonic() < deadline, f"{found}\n{seen}"
                time.sleep(0.3)
