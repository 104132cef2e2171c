"""Runs the demo job with live progress, one failure and one recovery: `penstock demo`."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import select
import shutil
import sys
import tempfile
import textwrap
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.report import table
from penstock.common import Configuration
from penstock.core.configuration import Rank
from penstock.core.times import SystemClock
from penstock.datastream import StreamExecutionEnvironment
from penstock.demo.job import build
from penstock.job.progress import digest_of, shown_progress
from penstock.launch.local import current_address

if TYPE_CHECKING:
    from penstock.common.job_client import JobClient


class Show:
    """Follows the demo's results.

    Args:
        is_quiet: Whether nothing is written.
        client: The running job.
        count: How many events there are.
    """

    def __init__(self, client: JobClient, count: int, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._client = client
        self._count = count
        self._counts: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
        self._lines = 0

    def follow(self, lines: Iterable[str]) -> None:
        """Takes in the results as they come, with one live line on a terminal."""
        with shown_progress(self._client._job, "off" if self._is_quiet else "auto"):  # type: ignore[arg-type]
            for line in lines:
                start, _, channel, behavior, count = line.split("\t")
                self._counts[int(start)][channel, behavior] = int(count)
                self._lines += 1

    def outcome(self, seconds: float) -> dict[str, Any]:
        """Returns counts and times of the run, for scripts and for `report`."""
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
        if self._is_quiet:
            return
        print("Events per minute and behaviour, all channels\n")
        print(f"{self._table()}\n")
        _say(
            f"{outcome['results']:,} results from {outcome['counted']:,} events in "
            f"{outcome['seconds']} s, Spark's start included."
        )
        _say(_story(outcome))
        if outcome["is_exact"]:
            click.secho("Every event was counted exactly once.", fg="green", bold=True)
        else:
            lost = f"{self._count:,} events were sent: some are lost or doubled."
            click.secho(lost, fg="red", bold=True)

    def _digest(self) -> Any:
        return digest_of(self._client._job, SystemClock().wall_ms())  # type: ignore[arg-type]

    def _table(self) -> str:
        behaviors = sorted({key[1] for window in self._counts.values() for key in window})
        rows = [
            (
                f"{datetime.fromtimestamp(start / 1000, UTC):%H:%M}",
                *(
                    sum(count for key, count in window.items() if key[1] == behavior)
                    for behavior in behaviors
                ),
            )
            for start, window in sorted(self._counts.items())
        ]
        return table(("window (UTC)", *behaviors), rows)


def _say(text: str) -> None:
    """Writes a paragraph, as wide as the terminal."""
    print(textwrap.fill(text, shutil.get_terminal_size().columns))


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


_EVENTS_PER_SECOND = 150_000
_PAGE_SECONDS = 600.0


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; returns the exit code."""
    options = _parse(arguments)
    is_quiet = options.as_json or options.is_quiet
    if is_quiet:
        # With --quiet or --json there is neither a page nor a text about the injected failure.
        options.page = False
        logging.getLogger("penstock").setLevel(logging.ERROR)
    count = max(1, options.seconds) * _EVENTS_PER_SECOND
    with _directory() as directory:
        env = StreamExecutionEnvironment.get_execution_environment(
            _configuration(options.settings, directory, page=options.page)
        )
        if not is_quiet:
            _say(
                f"Counting {count:,} events per minute, channel and behaviour. They come two "
                "minutes late and up to 50 seconds out of order; watermarks stay 50 seconds "
                "behind. A checkpoint is taken every second, and half-way the job breaks once, on "
                "purpose."
            )
            print()
        fail_after = None if options.unbroken else count // 4
        started = time.monotonic()
        results = build(env, count, options.seed, fail_after).execute_and_collect("penstock demo")
        show = Show(results.get_job_client(), count, is_quiet=is_quiet)
        with results:
            show.follow(results)
        outcome = show.outcome(time.monotonic() - started)
        show.report(outcome)
        if options.as_json:
            print(json.dumps(outcome, indent=2))
        elif options.is_quiet:
            print(outcome["counted"])
        if options.page:
            job_id = results.get_job_client().get_job_id()
            _linger(current_address(f"/jobs/{job_id}/checkpoints") or "")
    return 0 if outcome["is_exact"] else 1


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="penstock demo", description=__doc__)
    parser.add_argument("--seconds", type=int, default=6, help="approximate duration (default 6)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the events (default 0)")
    parser.add_argument("--unbroken", action="store_true", help="without the failure half-way")
    parser.add_argument(
        "--no-page", dest="page", action="store_false", help="without the web page of the job"
    )
    parser.add_argument("--json", dest="as_json", action="store_true", help="print one document")
    parser.add_argument(
        "-q", "--quiet", dest="is_quiet", action="store_true", help="print only the event count"
    )
    parser.add_argument("-D", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args(arguments)


def _configuration(settings: list[str], directory: str, *, page: bool) -> Configuration:
    """The demo's settings, which count more than a file's; what is asked for counts most."""
    configuration = Configuration()
    for setting in settings:
        key, _, value = setting.partition("=")
        configuration.put(key, value, Rank.CODE, "-D")
    own = {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": directory,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "500 ms",
        "penstock.ui.enabled": str(page).lower(),
    }
    for key, value in own.items():
        if not configuration.contains_key(key):
            configuration.put(key, value, Rank.CODE, "penstock demo")
    return configuration


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    """A directory for the checkpoints; what is left in it goes with the demo."""
    directory = tempfile.mkdtemp(prefix="penstock-demo-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _linger(page: str) -> None:
    """Names the page of the checkpoints, and keeps it up on a terminal."""
    stays = sys.stdin.isatty() and sys.stdout.isatty()
    ending = "" if stays else " (gone with the demo; in a terminal it stays)"
    print(f"Its checkpoints: {page}{ending}", flush=True)
    if not stays:
        return
    print("The page stays until you press Enter, ten minutes at most.")
    with contextlib.suppress(KeyboardInterrupt):
        select.select([sys.stdin], [], [], _PAGE_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
