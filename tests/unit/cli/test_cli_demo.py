"""`penstock demo` for scripts: the bare result or one document, and nothing beside it."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from penstock.demo import __main__ as demo

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _small_and_quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(demo, "_EVENTS_PER_SECOND", 4_000)
    log = logging.getLogger("penstock")
    level = log.level
    yield
    log.setLevel(level)


@pytest.mark.parametrize("option", ["--json", "--quiet", "-q"])
def test_what_scripts_read(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["-D", "penstock.spark.master=in-process", "-D", "penstock.progress=off"]
    code = demo.main(["--seconds", "1", "--unbroken", option, *settings])
    said = capsys.readouterr()
    assert (code, said.err) == (0, "")
    if option != "--json":
        assert said.out == "4000\n"
        return
    document = json.loads(said.out)
    assert (document["events"], document["counted"], document["is_exact"]) == (4_000, 4_000, True)
    assert document["restarts"] == 0
