"""The pages of faults and of guarantees name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROWS = [
    row
    for page in ("faults-covered.md", "guarantees.md")
    for row in (ROOT / "docs" / page).read_text().splitlines()
    if row.startswith("| ") and not row.endswith(("| shown by |", "| tests |"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_named_tests_exist(row: str) -> None:
    named = re.findall(r"`([a-z0-9]+/)?(test_\w+)`", row.split("|")[-2])
    assert named or "tests/formats" in row or "e2e/" in row, "no test is named"
    sources = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    for folder, name in named:
        if folder:
            assert name in sources, f"there is no {name}.py"
            assert sources[name].parent.name == folder.rstrip("/"), sources[name]
        else:
            pattern = re.compile(rf"^def {name}\(", re.MULTILINE)
            assert any(pattern.search(path.read_text()) for path in sources.values()), name
