"""Jobs with their checkpoints on a server that speaks S3, as the configuration describes it."""

from __future__ import annotations

import itertools
import threading
import urllib.request
from typing import TYPE_CHECKING

import pytest

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.inspection.contents import list_states
from penstock.inspection.verify import verify_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_buckets = itertools.count()


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A bucket that only the keys of a configuration file lead to."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    name = f"jobs-{next(_buckets)}"
    urllib.request.urlopen(
        urllib.request.Request(f"{s3_endpoint}/{name}", method="PUT"), timeout=10
    ).close()
    (tmp_path / "config.yaml").write_text(
        f"s3:\n  endpoint: {s3_endpoint}\n  access-key: key\n  secret-key: secret\n"
        "  region: us-east-1\n  path.style.access: true\n"
        "penstock:\n  spark:\n    master: in-process\n  epoch:\n    max-records: 100\n"
    )
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path))
    return f"s3://{name}/deep/down"


class Sum(KeyedProcessFunction):
    def open(self, runtime_context: object) -> None:
        self.sum = runtime_context.get_state(  # type: ignore[attr-defined]
            ValueStateDescriptor("sum", Types.LONG())
        )

    def process_element(self, value: int, ctx: object) -> Iterator[tuple[int, int]]:
        total = (self.sum.value() or 0) + value
        self.sum.update(total)
        yield value, total


def run(settings: dict[str, str], numbers: int) -> Iterable[tuple[int, int]]:
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(settings)
    )
    source = NumberSequenceSource(1, numbers)
    return (
        environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .uid("numbers")
        .key_by(lambda value: value % 3)
        .process(Sum())
        .uid("sum")
        .execute_and_collect()
    )


@pytest.mark.parametrize("checkpoints", [True, False], ids=["checkpoints", "savepoints-only"])
def test_a_job_goes_on_from_a_savepoint_on_s3(bucket: str, *, checkpoints: bool) -> None:
    settings = {"execution.checkpointing.savepoint-dir": f"{bucket}/savepoints"}
    if checkpoints:
        settings["execution.checkpointing.dir"] = f"{bucket}/checkpoints"
        settings["execution.checkpointing.interval"] = "100 ms"
    results = run(settings, 10**9)
    job = results.get_job_client()  # type: ignore[attr-defined]
    seen: dict[int, int] = {}
    # A job waits for whoever collects its results, so somebody has to.
    reading = threading.Thread(target=lambda: seen.update(results))
    reading.start()
    if checkpoints:
        assert job.trigger_checkpoint().result(120) >= 1
    place = job.stop_with_savepoint(False).result(120)
    reading.join()
    count = max(seen)
    assert place.startswith(f"{bucket}/savepoints/savepoint-")
    assert verify_snapshots(place)["is_whole"]
    assert [each["uid"] for each in list_states(place)["operators"]][:2] == ["numbers", "sum"]

    # As many again; each sum goes on from where the savepoint has it.
    go_on = {**settings, "execution.state-recovery.path": place}
    rest = run(go_on, 10**9)
    wanted = range(count + 1, count + 301)
    further = {}
    for value, total in rest:
        further[value] = total
        if value >= wanted[-1]:
            break
    rest.close()  # type: ignore[attr-defined]
    for value in wanted:
        # 1 + 4 + 7 + … of the same remainder, up to the value.
        first = value % 3 or 3
        terms = (value - first) // 3 + 1
        assert further[value] == terms * (first + value) // 2
