"""Runs the demo job with live progress and shows its results: `penstock demo`."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.demo.job import build

if TYPE_CHECKING:
    from penstock.common.job_client import JobClient

_EVENTS_PER_SECOND = 150_000


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; returns the exit code."""
    parser = argparse.ArgumentParser(prog="penstock demo", description=__doc__)
    parser.add_argument(
        "--seconds", type=int, default=20, help="about how long it should take (default 20)"
    )
    parser.add_argument("--seed", type=int, default=0, help="other events (default 0)")
    parser.add_argument("-D", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    count = max(1, options.seconds) * _EVENTS_PER_SECOND
    configuration = Configuration()
    for setting in options.settings:
        key, _, value = setting.partition("=")
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return _Demo(Console(), count).run(env, options.seed)


class _Demo:
    def __init__(self, console: Console, count: int) -> None:
        self._console = console
        self._count = count
        self._counts: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
        self._results = 0

    def run(self, env: StreamExecutionEnvironment, seed: int) -> int:
        console = self._console
        console.print(
            f"Counting [bold]{self._count:,}[/] events per minute, channel and behaviour. They "
            "come two minutes\nlate and up to 50 seconds out of order; watermarks stay 50 seconds "
            "behind.\n"
        )
        started = time.monotonic()
        results = build(env, self._count, seed).execute_and_collect("penstock demo")
        client = results.get_job_client()
        with results, Live(console=console, refresh_per_second=8, transient=True) as live:
            for line in results:
                self._take(line)
                live.update(self._progress(client, time.monotonic() - started))
        seconds = time.monotonic() - started
        console.print(self._table())
        total = sum(sum(window.values()) for window in self._counts.values())
        console.print(
            f"{self._results:,} results from {total:,} events in {seconds:.1f} s, Spark's start "
            "included."
        )
        if total != self._count:
            console.print(f"[bold red]{self._count - total:,} events are missing.[/]")
            return 1
        console.print("Every event was counted exactly once.")
        return 0

    def _take(self, line: str) -> None:
        start, _, channel, behavior, count = line.split("\t")
        self._counts[int(start)][channel, behavior] = int(count)
        self._results += 1

    def _progress(self, client: JobClient, seconds: float) -> Text:
        return Text(
            f"epoch {client.last_epoch}  {seconds:5.1f} s  windows {len(self._counts)}  "
            f"results {self._results:,}",
            style="cyan",
        )

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


if __name__ == "__main__":
    raise SystemExit(main())
