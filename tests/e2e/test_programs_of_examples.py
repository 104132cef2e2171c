"""The examples print what somebody who reads them expects; worked out by hand.

They run in their own process without Spark; `tests/test_docs.py` runs each of them on Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.e2e

PRINTED = {
    "broadcast_rules": ["fr: 120 is more than 100", "jp: 9000 is more than 5000"],
    "database_totals": ["cake 450", "jam 250", "tea 500"],
    "files_with_checkpoints": ["north\t10", "north\t17", "south\t5"],
    "orders_with_payments": ["book was paid: 12", "desk was paid: 99"],
    "sessions_and_late_clicks": [
        "ann: 2 clicks in 13 s",
        "bob: 1 clicks in 10 s",
        "too late: ('bob', 2000)",
        "ann: 1 clicks in 10 s",
    ],
    "silence_alert": [
        "b is silent since 2000 ms",
        "a is silent since 5000 ms",
        "b is silent since 14000 ms",
        "a is silent since 30000 ms",
    ],
    "word_count": [
        *("('to', 1)", "('be', 1)", "('or', 1)", "('not', 1)", "('to', 2)", "('be', 2)"),
        *("('that', 1)", "('is', 1)", "('the', 1)", "('question', 1)"),
    ],
}


@pytest.mark.parametrize("name", PRINTED)
def test_example(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("penstock.spark.master: in-process\n")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "PENSTOCK_CONF_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Counter(done.stdout.splitlines()) == Counter(PRINTED[name])
