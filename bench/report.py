"""The tables of results, and the page of the documentation that holds them, part by part."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from bench.checkpoints import checkpoint_tables
from bench.environments import REQUIREMENTS, ROOT

if TYPE_CHECKING:
    from bench.checkpoints import CheckpointResult
    from bench.kafka import KafkaLatency
    from bench.latency import Latency
    from bench.race import Result

PAGE = ROOT / "docs" / "benchmarks.md"
PEERS = "<!-- Below this line `make bench` writes. -->"
CHECKPOINTS = "<!-- Below this line `python -m bench checkpoints` writes. -->"
TITLES = {
    "windows": "Counts per one-minute window, channel and behaviour",
    "users": "A running count per user, 1 million users",
    "kafka": "A running count per user from Kafka to Kafka, records of 100 bytes",
}
HEADER = (
    "| peer | settings | records | seconds | records/s | start-up | peak memory | Penstock is |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|\n"
)


def row(result: Result, ours: float) -> str:
    """One line of the table; `ours` is Penstock's rate with the same kind of state."""
    contender = result.contender
    is_ours = contender.environment == "penstock"
    ratio = "" if is_ours or not ours or not result.rate else f"{ours / result.rate:.1f} ×"
    sizes = " and ".join(f"{size:,}" for size in result.sizes)
    seconds = f"{result.small.seconds:.1f} and {result.large.seconds:.1f}"
    memory = f"{result.large.peak_bytes / 1e9:.1f} GB"
    return (
        f"| {contender.peer} | {contender.settings} | {sizes} | {seconds} | {result.rate:,.0f} "
        f"| {result.startup_seconds:.1f} s | {memory} | {ratio} |"
    )


def terms_of(result: Result) -> tuple[bool, bool]:
    """What a row is compared by: state in RocksDB or not, exactly once or not."""
    settings = result.contender.settings
    return "rocksdb" in settings, "exactly once" in settings


def our_rate(peer: Result, results: list[Result]) -> float:
    """Penstock's best rate on equal terms: SQL meets columns, Python functions meet their like."""
    is_sql = "SQL" in peer.contender.peer
    return max(
        (
            result.rate
            for result in results
            if result.contender.environment == "penstock"
            and terms_of(result) == terms_of(peer)
            and (is_sql or "row functions" in result.contender.peer)
        ),
        default=0.0,
    )


def tables(results: list[Result], latency: Latency | None, of_kafka: list[KafkaLatency]) -> str:
    """One table a workload and two for latency, as Markdown."""
    parts = []
    for workload, title in TITLES.items():
        chosen = [result for result in results if result.contender.workload == workload]
        if not chosen:
            continue
        rows = [row(result, our_rate(result, chosen)) for result in chosen]
        parts.append(f"## {title}\n\n{HEADER}" + "\n".join(rows) + "\n")
    if latency is not None:
        parts.append(
            "## Latency of Penstock at 10,000 events/s, two stages\n\n"
            f"| over {latency.seconds} s | median | 99th percentile |\n|---|--:|--:|\n{latency}"
        )
    if of_kafka:
        parts.append(
            "## Latency of Penstock from Kafka to Kafka at 10,000 events/s\n\n"
            "From the moment an event is due to the moment a reader of committed records has its "
            "count; a checkpoint every second.\n\n"
            f"| over {of_kafka[0].seconds} s | median | 99th percentile |\n|---|--:|--:|\n"
            + "".join(f"{each}\n" for each in of_kafka)
        )
    return "\n".join(parts)


def machine(*versions: str) -> str:
    """The machine in a few words, without anything that names it; versions come last."""
    facts = []
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        model = re.search(r"model name\s*:\s*(.*)", cpuinfo.read_text())
        facts.append(model.group(1) if model else platform.machine())
    facts.append(f"{os.cpu_count()} cores")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    facts.append(f"{memory / 2**30:.0f} GB of memory")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    number = re.search(r'version "(.*?)"', java)
    facts.append(f"Java {number.group(1) if number else 'unknown'}")
    facts.append(f"Python {platform.python_version()}")
    facts += versions
    facts.append(f"penstock {version('penstock')}")
    return ", ".join(facts)


def write_peers(
    results: list[Result], latency: Latency | None, of_kafka: list[KafkaLatency]
) -> Path:
    """Puts the tables of the peers into the page, below its hand-written part."""
    head, _, checkpoints = _page()
    peers = [requirements[0].replace("==", " ") for requirements in REQUIREMENTS.values()]
    text = f"Measured on: {machine(*peers)}.\n\n{tables(results, latency, of_kafka)}"
    return _write(head, text, checkpoints)


def write_checkpoints(results: list[CheckpointResult]) -> Path:
    """Puts the tables of checkpoints at the end of the page."""
    head, peers, _ = _page()
    spark = f"pyspark {version('pyspark')}"
    text = f"Measured on: {machine(spark)}.\n\n{checkpoint_tables(results)}"
    return _write(head, peers, text)


def _page() -> tuple[str, str, str]:
    """What the page holds now: written by hand, peers, checkpoints."""
    head, _, measured = PAGE.read_text().partition(PEERS)
    peers, _, checkpoints = measured.partition(CHECKPOINTS)
    return head, peers, checkpoints


def _write(head: str, *measured: str) -> Path:
    peers, checkpoints = (part.strip() for part in measured)
    PAGE.write_text(f"{head}{PEERS}\n\n{peers}\n\n{CHECKPOINTS}\n\n{checkpoints}\n")
    return PAGE.relative_to(ROOT)
