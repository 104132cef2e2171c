"""The same two jobs as a loop of plain Python: no engine, nothing kept, nothing moved.

What the functions themselves cost, and so what no engine that calls them can do better on one core.

    python plain.py windows|users INPUT OUTPUT
"""

import sys
from collections import defaultdict
from pathlib import Path

MINUTE_MS = 60_000
DISORDER_MS = 50_000


def read(source):
    """Lines of all files in turn, as two readers would bring them."""
    files = [path.open() for path in sorted(Path(source).iterdir())]
    for lines in zip(*files, strict=True):
        yield from lines


def parse(line):
    ts, channel, _, behavior = line.rstrip("\n").split("\t")
    return int(ts), channel, behavior


def windows(lines):
    held = defaultdict(list)
    highest = due = 0
    for line in lines:
        event = parse(line)
        ts = event[0]
        start = ts - ts % MINUTE_MS
        held[start, (event[1], event[2])].append(event)
        if ts > highest:
            highest = ts
            if highest - DISORDER_MS >= due:
                due = start + MINUTE_MS
                yield from fire(held, highest - DISORDER_MS)
    yield from fire(held, highest + MINUTE_MS)


def fire(held, watermark):
    for window in [each for each in held if each[0] + MINUTE_MS - 1 <= watermark]:
        start, (channel, behavior) = window
        count = sum(1 for _ in held.pop(window))
        yield f"{start}\t{start + MINUTE_MS}\t{channel}\t{behavior}\t{count}\n"


def users(lines):
    counts = {}
    for line in lines:
        user = int(line.split("\t")[2])
        count = (counts.get(user) or 0) + 1
        counts[user] = count
        yield f"{user}\t{count}\n"


def main(workload, source, target):
    Path(target).mkdir(parents=True)
    job = {"windows": windows, "users": users}[workload]
    with (Path(target) / "part").open("w") as output:
        output.writelines(job(read(source)))


if __name__ == "__main__":
    main(*sys.argv[1:])
