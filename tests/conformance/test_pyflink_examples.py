"""PyFlink's own DataStream examples run after the import change alone.

The examples are those of an installed PyFlink (`make bench` installs one); without it there is
nothing to run. `programs/pyflink_docs.py` holds programs of the same shape that always run.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOUND = sorted(ROOT.glob(".bench/pyflink/lib/python*/site-packages/pyflink/examples/datastream"))

BROKER = "needs a broker that is not Penstock's: there is no connector of that name yet"
TABLES = "needs PyFlink's Table API"

NOT_RUN = {
    "asyncio/remote_model_inference.py": TABLES,
    "connectors/pulsar.py": BROKER,
    "streaming_word_count.py": TABLES,
}
# Writes to addresses that no server here answers at; the sink runs beside a server in
# tests/e2e/tables.
ELASTICSEARCH = "connectors/elasticsearch.py"
# tests/e2e/kafka/test_kafka_pyflink_examples.py runs these beside a broker.
WITH_KAFKA = {
    "connectors/kafka_avro_format.py",
    "connectors/kafka_bytearray_format.py",
    "connectors/kafka_csv_format.py",
    "connectors/kafka_json_format.py",
    "connectors/kafka_row_field_extractor_example.py",
}

INFO = '(%d, \'{"name": "%s", "tel": %d, "addr": {"country": "%s", "city": "%s"}}\')'
PLACES = [
    INFO % (1, "Flink", 124, "Germany", "Berlin"),
    INFO % (2, "hello", 136, "China", "Shanghai"),
    INFO % (3, "world", 125, "USA", "NewYork"),
    INFO % (4, "PyFlink", 33, "China", "Hangzhou"),
]

# Worked out by hand from the data in the examples; where an example has comments with its output,
# that output.


def summed(name: str, *values: float) -> str:
    """What the examples show of sums in Python of numbers that were declared as FLOAT."""
    return repr((name, sum(struct.unpack("f", struct.pack("f", value))[0] for value in values)))


RESULTS = {
    "basic_operations.py": [
        *PLACES,
        PLACES[0],
        "('Germany', 123)",
        "('China', 135)",
        "('USA', 124)",
        "('China', 167)",
    ],
    # Each of eight timers shows the sum so far; no watermark passes before all records are in.
    "event_time_timer.py": [summed("Alice", 110.1, 20.0, 13.1, 20.1)] * 4
    + [summed("Bob", 30.2, 53.1, 3.1, 16.1)] * 4,
    "process_json_data.py": [
        "(2, {'name': 'hello', 'tel': 136, 'addr': {'country': 'China', 'city': 'Shanghai'}})",
        "(4, {'name': 'PyFlink', 'tel': 33, 'addr': {'country': 'China', 'city': 'Hangzhou'}})",
    ],
    "state_access.py": [
        *(summed("Alice", *(110.1, 20.0, 13.1, 20.1)[:count]) for count in range(1, 5)),
        *(summed("Bob", *(30.2, 53.1, 3.1, 16.1)[:count]) for count in range(1, 5)),
    ],
    "windowing/session_with_dynamic_gap_window.py": ["(hi,1,30,7)"],
    "windowing/session_with_gap_window.py": ["(hi,1,14,6)", "(hi,15,20,1)"],
    "windowing/sliding_time_window.py": [
        "(hi,-2,3,2)",
        "(hi,0,5,4)",
        "(hi,2,7,4)",
        "(hi,4,9,3)",
        "(hi,6,11,2)",
        "(hi,8,13,2)",
        "(hi,12,17,1)",
        "(hi,14,19,1)",
    ],
    "windowing/tumbling_count_window.py": ["(hi,4)", "(hello,6)", "(hello,12)"],
    "windowing/tumbling_time_window.py": ["(hi,0,5,4)", "(hi,5,10,3)", "(hi,15,20,1)"],
}

needs_pyflink = pytest.mark.skipif(not FOUND, reason="PyFlink is not in .bench: see make bench")


def ported(name: str, folder: Path) -> Path:
    """Copies an example with the imports changed, and nothing else."""
    program = folder / Path(name).name
    program.write_text((FOUND[0] / name).read_text().replace("pyflink", "penstock"))
    return program


def run(program: Path, *arguments: str, master: str = "in-process") -> list[str]:
    settings = json.dumps({"penstock.spark.master": master})
    done = subprocess.run(
        [sys.executable, program, *arguments],
        cwd=program.parent,
        env={**os.environ, "PENSTOCK_DYNAMIC_PROPERTIES": settings},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def results_of(lines: list[str]) -> list[str]:
    return sorted(line for line in lines if line.startswith("("))


def words_of(program: Path) -> list[str]:
    """What word_count.py must print, counted from its own text."""
    text = runpy.run_path(str(program), run_name="data")["word_count_data"]
    counts = Counter(word for line in text for word in line.split())
    return sorted(f"({word},{count})" for word, count in counts.items())


@needs_pyflink
def test_every_example_is_known() -> None:
    names = {path.relative_to(FOUND[0]).as_posix() for path in FOUND[0].rglob("*.py")}
    assert names == {*RESULTS, *NOT_RUN, *WITH_KAFKA, ELASTICSEARCH, "word_count.py"}


@needs_pyflink
@pytest.mark.parametrize("name", RESULTS)
def test_example(name: str, tmp_path: Path) -> None:
    assert results_of(run(ported(name, tmp_path))) == sorted(RESULTS[name])


@needs_pyflink
def test_word_count(tmp_path: Path) -> None:
    program = ported("word_count.py", tmp_path)
    assert results_of(run(program)) == words_of(program)


@needs_pyflink
def test_word_count_from_and_to_files(tmp_path: Path) -> None:
    program = ported("word_count.py", tmp_path)
    text = runpy.run_path(str(program), run_name="data")["word_count_data"]
    (tmp_path / "in.txt").write_text("\n".join(text))
    run(program, "--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out"))
    parts = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert parts
    for part in parts:
        assert part.name.startswith("prefix")
        assert part.suffix == ".ext"
    lines = [line for part in parts for line in part.read_text().splitlines()]
    assert sorted(lines) == words_of(program)


@needs_pyflink
@pytest.mark.spark
def test_word_count_on_spark(tmp_path: Path) -> None:
    program = ported("word_count.py", tmp_path)
    assert results_of(run(program, master="local[1]")) == words_of(program)


@needs_pyflink
@pytest.mark.parametrize("name", NOT_RUN)
def test_what_an_example_lacks_is_refused_with_a_way_out(name: str, tmp_path: Path) -> None:
    """At its first call, not at the import."""
    done = subprocess.run(
        [sys.executable, ported(name, tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "ImportError" not in done.stderr
    assert "ModuleNotFoundError" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "is not supported" in last
    assert re.search(r"env\.from_spark|StreamFormat|BulkWriterFactory|Avro", last), last


@needs_pyflink
def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ported(ELASTICSEARCH, tmp_path)],
        env={
            **os.environ,
            "PENSTOCK_DYNAMIC_PROPERTIES": '{"penstock.spark.master": "in-process"}',
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "localhost:9200 does not answer POST /_bulk" in done.stderr
    assert "in task 'Source: Collection Source -> Sink: es6 sink'" in done.stderr
