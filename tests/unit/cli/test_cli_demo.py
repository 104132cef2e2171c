"""`penstock demo` for scripts: the bare result or one document, and nothing beside it."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import pytest

from penstock.core.configuration import Rank
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


def test_its_settings_name_who_made_them() -> None:
    """Not the machinery that runs it; a file that says otherwise is named in a warning."""
    made = demo._configuration(["state.checkpoints.dir=mine"], "its own", page=False)
    assert made.read("execution.checkpointing.dir") == "mine"
    made.put("parallelism.default", "9", Rank.FILE, "conf/config.yaml:1")
    (warning,) = (text for text in made.warnings() if text.startswith("parallelism"))
    assert "the program sets '2' (penstock demo), conf/config.yaml:1 says '9'" in warning


def test_without_a_terminal_its_page_is_said_to_be_gone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    demo._linger("http://localhost:1/#/jobs/0")
    assert (
        capsys.readouterr().out.rstrip().endswith("0 (gone with the demo; in a terminal it stays)")
    )
