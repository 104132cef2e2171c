"""The demonstration with Kafka, which runs an example and checks what it wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.usefixtures("kafka_jars")
def test_every_event_is_counted_once(tmp_path: Path) -> None:
    settings = json.dumps({"penstock.spark.master": "in-process", "parallelism.default": "2"})
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "demo_kafka.py", "5000"],
        env={**os.environ, "PENSTOCK_DYNAMIC_PROPERTIES": settings},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "Each of the 5,000 events was counted exactly once."
