"""Progress is shown on terminals and in notebooks, never elsewhere unless somebody asks."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import pytest

from penstock.common import Configuration
from penstock.core.errors import PenstockError
from penstock.core.job import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.job import progress
from penstock.job.progress import (
    JobDigest,
    LiveLine,
    NotebookView,
    PlainLines,
    display_for,
    job_html,
    progress_text,
)

DIGEST = JobDigest("ab" * 16, "words", JobStatus.RUNNING, epoch=12, records_read=1_234_567)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("setting", "is_terminal", "in_notebook", "dumb", "mode"),
    [
        ("auto", True, False, False, LiveLine),
        ("auto", True, False, True, None),
        ("auto", False, False, False, None),
        ("auto", False, True, False, NotebookView),
        ("LINES", True, False, False, PlainLines),
        ("lines", False, False, False, PlainLines),
        ("off", True, True, False, None),
    ],
)
def test_modes(
    setting: str, is_terminal: bool, in_notebook: bool, dumb: bool, mode: type | None
) -> None:
    chosen = display_for(setting, is_terminal=is_terminal, in_notebook=in_notebook, dumb=dumb)
    assert chosen is mode


def test_the_line() -> None:
    assert progress_text(DIGEST) == "RUNNING · epoch 12 · 1,234,567 records (0/s)"
    full = JobDigest(
        "ab" * 16,
        "words",
        JobStatus.RUNNING,
        runtime_ms=61_000,
        epoch=1_200,
        records_read=5,
        records_per_second=98_765.4,
        watermark_ms=1,
        watermark_lag_ms=52_100,
        restarts=2,
        checkpoint_id=7,
        checkpoint_age_ms=850,
    )
    assert progress_text(full) == (
        "RUNNING · 1 min 1 s · epoch 1,200 · 5 records (98,765/s) · watermark lag 52 s · "
        "checkpoint 7 850 ms ago · 2 restarts"
    )


def terminals(monkeypatch: pytest.MonkeyPatch) -> tuple[Terminal, Terminal]:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(progress, "text_of", lambda job: "RUNNING")
    return out, err


def test_output_of_the_program_goes_above_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = terminals(monkeypatch)
    line = LiveLine({"NO_COLOR": "1"})
    job: Any = None
    line.draw(job)
    assert err.getvalue() == "\r\x1b[2KRUNNING"
    print("hello")
    assert out.getvalue() == "hello\n"
    assert err.getvalue().endswith("RUNNING\r\x1b[2K"), "the line went away first"
    line.draw(job)
    shown = err.getvalue()
    sys.stdout.writelines([])
    assert err.getvalue() == shown, "nothing was written, so the line stays"
    print("half", end="")
    line.draw(job)
    assert err.getvalue().endswith("RUNNING\r\x1b[2K"), "it does not cut a line of the program"
    print()
    line.draw(job)
    line.close()
    assert err.getvalue().endswith("RUNNING\r\x1b[2K")
    assert (sys.stdout, sys.stderr) == (out, err)


def test_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = terminals(monkeypatch)
    line = LiveLine({})
    line.draw(None)  # type: ignore[arg-type]
    line.close()
    assert "\x1b[36mRUNNING\x1b[0m" in err.getvalue()


def test_standard_output_that_is_no_terminal_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminals(monkeypatch)
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    line = LiveLine({"NO_COLOR": "1"})
    assert sys.stdout is file
    line.close()


def test_a_terminal_that_knows_few_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_out = io.BytesIO()
    narrow = io.TextIOWrapper(bytes_out, encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stderr", narrow)
    monkeypatch.setattr(progress, "text_of", lambda job: "RUNNING \u00b7 epoch 1")
    line = LiveLine({"NO_COLOR": "1"})
    line.draw(None)  # type: ignore[arg-type]
    line.close()
    assert b"RUNNING ? epoch 1" in bytes_out.getvalue()


def slow_job(setting: str) -> StreamExecutionEnvironment:
    """A job of several ticks."""
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    configuration.set_string("penstock.progress", setting)
    configuration.set_string("penstock.epoch.max-records", "1")
    configuration.set_string("penstock.epoch.interval", "60 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection(list(range(8))).print()
    return env


def test_a_job_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(LiveLine, "every_s", 0.01)
    slow_job("auto").execute()
    assert out.getvalue().split() == [str(n) for n in range(8)]
    assert " · epoch " in err.getvalue()
    assert err.getvalue().endswith("\r\x1b[2K")


def test_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    slow_job("auto").execute()
    assert capsys.readouterr().err == ""


def test_plain_lines_if_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.PlainLines, "every_s", 0.01)
    slow_job("lines").execute()
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert any(" · epoch " in line for line in lines)
    assert "\x1b" not in "".join(lines)


def test_a_view_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for IPython, which is not installed: it records what is displayed."""
    shown: list[str] = []

    class Handle:
        def update(self, value: str) -> None:
            shown.append(value)

    def display(value: str, display_id: bool) -> Handle:
        assert display_id
        shown.append(value)
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    ipython.display = types.SimpleNamespace(HTML=str, display=display)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(progress.NotebookView, "every_s", 0.01)
    slow_job("auto").execute()
    assert len(shown) > 2
    # The first ones may be from before its first epoch.
    assert any("<th>state</th><td>RUNNING</td>" in each for each in shown)
    assert shown[-1] == ""


def test_other_words_are_refused() -> None:
    with pytest.raises(PenstockError, match=r"penstock.progress is 'loud', but it must be one of"):
        slow_job("loud").execute()


def test_names_are_escaped() -> None:
    text = job_html(JobDigest("ab" * 16, "<script>", JobStatus.RUNNING))
    assert "<script>" not in text and "&lt;script&gt;" in text
