"""Progress of a job that a program waits for: a live line on a terminal, a view in a notebook.

On a terminal one line is drawn again and again; whatever else is printed meanwhile goes above it.
Elsewhere nothing is shown unless `penstock.progress: lines` asks for a line every ten seconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO, cast

from penstock.core.clock import SystemClock
from penstock.job.digest import digest_of, job_html, progress_text

if TYPE_CHECKING:
    from penstock.job.record import Job

_CLEAR: Final = "\r\x1b[2K"
_TICK_S: Final = 0.25
_LINE_EVERY_S: Final = 10.0


class Mode(Enum):
    """Where progress is shown."""

    NONE = "none"
    LIVE = "live"
    LINES = "lines"
    NOTEBOOK = "notebook"


def mode_of(setting: str, *, is_terminal: bool, in_notebook: bool, dumb: bool = False) -> Mode:
    """Returns where progress is shown.

    Args:
        setting: `penstock.progress`.
        is_terminal: Standard error is one.
        in_notebook: The program runs in a notebook.
        dumb: The terminal cannot go back to the beginning of a line.
    """
    chosen = setting.lower()
    if chosen == "off":
        return Mode.NONE
    if chosen == "lines":
        return Mode.LINES
    if in_notebook:
        return Mode.NOTEBOOK
    return Mode.LIVE if is_terminal and not dumb else Mode.NONE


class Display(Protocol):
    """Where progress is drawn."""

    every_s: float

    def draw(self, job: Job) -> None:
        """Shows how the job stands."""

    def close(self) -> None:
        """The job has ended."""


@contextlib.contextmanager
def shown_progress(job: Job, setting: str) -> Iterator[None]:
    """Shows the progress of a job while the program waits for it."""
    display = _display(setting)
    if display is None:
        yield
        return
    ended = threading.Event()

    def redraw() -> None:
        while not ended.wait(display.every_s):
            if not job.result.done():
                display.draw(job)

    thread = threading.Thread(target=redraw, name="penstock-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        display.close()


def _display(setting: str) -> Display | None:
    mode = mode_of(
        setting,
        is_terminal=_is_terminal(sys.stderr),
        in_notebook=_notebook() is not None,
        dumb=os.environ.get("TERM") == "dumb",
    )
    if mode is Mode.LIVE:
        return LiveLine(os.environ)
    if mode is Mode.LINES:
        return PlainLines()
    return NotebookView() if mode is Mode.NOTEBOOK else None


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _writable(text: str, stream: TextIO) -> str:
    """Returns a text without the characters that a stream cannot write."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def text_of(job: Job) -> str:
    """Returns the line about a job."""
    return progress_text(digest_of(job, SystemClock().wall_ms()))


class PlainLines:
    """A line on standard error now and then."""

    every_s = _LINE_EVERY_S

    def draw(self, job: Job) -> None:
        print(_writable(text_of(job), sys.stderr), file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class LiveLine:
    """One line at the bottom of the terminal; output of the program goes above it.

    Standard output and error are wrapped while it is shown, if they are terminals, so that the line
    goes away before they write and comes back later.
    """

    every_s = _TICK_S

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._lock = threading.RLock()
        self._terminal: TextIO = sys.stderr
        self._out: TextIO = sys.stdout
        self._is_shown = False
        self._at_line_start = True
        self._before, self._after = (
            ("", "") if environment.get("NO_COLOR") else ("\x1b[36m", "\x1b[0m")
        )
        sys.stderr = cast("TextIO", _Above(self._terminal, self))
        if _is_terminal(self._out):
            sys.stdout = cast("TextIO", _Above(self._out, self))

    def draw(self, job: Job) -> None:
        width = shutil.get_terminal_size().columns - 1
        text = _writable(text_of(job)[:width], self._terminal)
        with self._lock:
            if not self._at_line_start:
                return  # A half line of the program's is there.
            self._terminal.write(f"{_CLEAR}{self._before}{text}{self._after}")
            self._terminal.flush()
            self._is_shown = True

    def write(self, stream: TextIO, text: str) -> int:
        """Writes output of the program where the line was."""
        if not text:
            return 0
        with self._lock:
            self._clear()
            self._at_line_start = text.endswith("\n")
            written = stream.write(text)
            stream.flush()
            return written

    def _clear(self) -> None:
        if self._is_shown:
            self._terminal.write(_CLEAR)
            self._terminal.flush()
            self._is_shown = False

    def close(self) -> None:
        with self._lock:
            self._clear()
            for name, stream in (("stderr", self._terminal), ("stdout", self._out)):
                wrapped = getattr(sys, name)
                # Not if the program has replaced the stream meanwhile.
                if isinstance(wrapped, _Above) and wrapped.stream is stream:
                    setattr(sys, name, stream)


class _Above:
    """A stream whose output goes above the live line."""

    def __init__(self, stream: TextIO, line: LiveLine) -> None:
        self.stream = stream
        self._line = line

    def write(self, text: str) -> int:
        return self._line.write(self.stream, text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class NotebookView:
    """A table in the cell's output, replaced in place."""

    every_s = 1.0

    def __init__(self) -> None:
        self._ipython = _notebook()
        self._handle: Any = None

    def draw(self, job: Job) -> None:
        display = self._ipython.display
        shown = display.HTML(job_html(digest_of(job, SystemClock().wall_ms())))
        if self._handle is None:
            self._handle = display.display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def close(self) -> None:
        if self._handle is not None:
            # What is left of the cell are the program's own results.
            self._handle.update(self._ipython.display.HTML(""))


def _notebook() -> Any:
    """Returns IPython if it runs this program as a notebook's kernel, else None."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return ipython if shell is not None and hasattr(shell, "kernel") else None
