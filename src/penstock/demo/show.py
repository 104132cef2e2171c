"""What the demo shows: a line of progress while it runs, a table and the story of it at the end."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.core.clock import SystemClock
from penstock.job.digest import digest_of, progress_text

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.common.job_client import JobClient


class Show:
    """Follows the demo's results.

    Args:
        console: Where to write.
        client: The running job.
        count: How many events there are.
    """

    def __init__(self, console: Console, client: JobClient, count: int) -> None:
        self._console = console
        self._client = client
        self._count = count
        self._counts: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
        self._lines = 0

    def follow(self, lines: Iterable[str], started: float) -> None:
        """Takes in the results as they come, with one live line on a terminal."""
        with Live(
            console=self._console,
            refresh_per_second=4,
            transient=True,
            get_renderable=lambda: self._progress(started),
        ):
            for line in lines:
                start, _, channel, behavior, count = line.split("\t")
                self._counts[int(start)][channel, behavior] = int(count)
                self._lines += 1

    def outcome(self, seconds: float) -> dict[str, Any]:
        """Returns what became of the events, for scripts and for `report`."""
        digest = self._digest()
        counted = sum(sum(window.values()) for window in self._counts.values())
        distinct = sum(map(len, self._counts.values()))
        return {
            "job_id": str(self._client.get_job_id()),
            "events": self._count,
            "counted": counted,
            "results": self._lines,
            "is_exact": counted == self._count and distinct == self._lines,
            "checkpoints": digest.checkpoints_completed,
            "restarts": digest.restarts,
            "seconds": round(seconds, 1),
        }

    def report(self, outcome: dict[str, Any]) -> None:
        """Writes the table and what happened."""
        console = self._console
        console.print(self._table())
        console.print(
            f"{outcome['results']:,} results from {outcome['counted']:,} events in "
            f"{outcome['seconds']} s, Spark's start included.",
            highlight=False,
        )
        console.print(_story(outcome), highlight=False)
        if outcome["is_exact"]:
            console.print("[bold green]Every event was counted exactly once.[/]")
        else:
            console.print(
                f"[bold red]{self._count:,} events were sent: some are lost or doubled.[/]"
            )

    def _progress(self, started: float) -> Text:
        text = progress_text(self._digest())
        return Text(f"{time.monotonic() - started:5.1f} s  {text}", style="cyan")

    def _digest(self) -> Any:
        return digest_of(self._client._job, SystemClock().wall_ms())  # type: ignore[arg-type]

    def _table(self) -> Table:
        behaviors = sorted({key[1] for window in self._counts.values() for key in window})
        table = Table(title="Events per minute and behaviour, all channels", title_justify="left")
        table.add_column("window (UTC)")
        for behavior in behaviors:
            table.add_column(behavior, justify="right")
        for start in sorted(self._counts):
            window = self._counts[start]
            cells = [
                sum(count for key, count in window.items() if key[1] == behavior)
                for behavior in behaviors
            ]
            begin = datetime.fromtimestamp(start / 1000, UTC)
            table.add_row(f"{begin:%H:%M}", *(f"{cell:,}" for cell in cells))
        return table


def _story(outcome: dict[str, Any]) -> str:
    story = f"{outcome['checkpoints']} checkpoints were completed"
    restarts = outcome["restarts"]
    if restarts:
        times = "once" if restarts == 1 else f"{restarts} times"
        story += (
            f"; the job broke {times} and went on from its latest checkpoint, with nothing "
            "written twice"
        )
    return story + "."
