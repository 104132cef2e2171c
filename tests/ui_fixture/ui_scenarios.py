"""The four looks of the service: normal, empty, failing, huge. Each is a table of documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ui_checkpoints import (
    checkpoints_document,
    config_document,
    details,
    record,
    subtasks,
)
from ui_documents import (
    JSON,
    MIB,
    Job,
    Stage,
    job_document,
    overview_row,
    plan_document,
    vertex_document,
)
from ui_states import rows_document, state_document

MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
NEVER = 2**63 - 1

CHANNELS = (
    Stage("Source: events", 4, (), 48_200, 9_000, 0.34),
    Stage("Source: channel prices", 1, (), 12, 4_000, 0.01),
    Stage("parse -> drop test users", 4, ((0, "REBALANCE"),), 48_200, 0, 0.41, 0.12),
    Stage("join prices", 4, ((2, "HASH"), (1, "BROADCAST")), 47_900, 62 * MIB, 0.78, 0.0),
    Stage("count per channel and minute", 4, ((3, "HASH"),), 47_900, 410 * MIB, 0.93, 0.0),
    Stage("Sink: minutes", 2, ((4, "REBALANCE"),), 310, 0, 0.04),
    Stage("late events -> Sink: late", 1, ((4, "FORWARD"),), 3, 0, 0.01),
)

USER_TRACE = """\
Traceback (most recent call last):
  File "/srv/jobs/channels.py", line 58, in price_of
    return event["price"] / rates[event["currency"]]
           ~~~~~~~~~~~~~~~~~~~~~^^^^^^^^^^^^^^^^^^^
  File "/srv/lib/penstock/operators/process.py", line 112, in process_batch
    collected.extend(process(value, context))
KeyError: 'GBX'
in operator 'join prices' (uid 'prices', subtask 3), epoch 8123, key 'channel-17'
"""


def failure(time_ms: int, attempt: int, text: str = USER_TRACE, name: str = "KeyError") -> JSON:
    return {
        "exceptionName": name,
        "stacktrace": text,
        "timestamp": time_ms,
        "taskName": "join prices (4/4)",
        "endpoint": "worker-1.example.org",
        "taskManagerId": "worker-1",
        "failureLabels": {},
        "concurrentExceptions": [],
        "attempt": attempt,
        "restored-checkpoint": 118 + attempt,
    }


def exceptions_document(entries: list[JSON]) -> JSON:
    return {
        "exceptionHistory": {"entries": entries, "truncated": len(entries) > 5},
        "root-exception": entries[0]["stacktrace"] if entries else None,
        "timestamp": entries[0]["timestamp"] if entries else None,
        "all-exceptions": [],
        "truncated": False,
    }


def settings_document() -> JSON:
    rows = [
        ("execution.checkpointing.dir", "s3://streams/checkpoints", "conf/config.yaml:5", False),
        ("execution.checkpointing.interval", "30 s", "code channels.py:41", False),
        ("state.backend.type", "rocksdb", "conf/config.yaml:3", False),
        ("penstock.rest.token-file", "******", "conf/config.yaml:9", False),
        ("parallelism.default", "4", "-D", False),
        ("execution.checkpointing.mode", "EXACTLY_ONCE", "default", True),
        ("execution.checkpointing.timeout", "10 min", "default", True),
        ("restart-strategy.type", "exponential-delay", "default", True),
    ]
    return {
        "settings": [
            {"key": key, "value": value, "source": source, "is-default": is_default}
            for key, value, source, is_default in rows
        ]
    }


LOG = "".join(
    f"2026-11-20 21:{line // 60:02d}:{line % 60:02d},118 {level} penstock.driver - {text}\n"
    for line, (level, text) in enumerate(
        [
            ("INFO", "Job 'minutes per channel' started with 20 subtasks"),
            ("INFO", "Triggering checkpoint 118 (type=CHECKPOINT)"),
            ("WARNING", "Operator 'map-3' has no uid; a changed program may not find its state"),
            ("INFO", "Completed checkpoint 118 (14,321 bytes, checkpointDuration=912 ms)"),
            ("ERROR", "KeyError: 'GBX' in operator 'join prices'"),
            ("INFO", "Restarting from checkpoint 118 in 1 s"),
        ]
        * 30
    )
)


class Look:
    """Documents by path, at a moment."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.jobs: list[Job] = []
        self.documents: dict[str, Any] = {}
        self.texts: dict[str, str] = {"jobmanager/logs/jobmanager.log": LOG}
        self.documents["jobmanager/logs"] = {
            "logs": [{"name": "jobmanager.log", "size": 0, "mtime": 0}]
        }
        self.documents["jobmanager/config"] = [
            {"key": "rest.port", "value": "8081"},
            {"key": "penstock.jobmanager.directory", "value": "~/.local/state/penstock"},
        ]
        self.documents["jobmanager/environment"] = {
            "jvm": {"version": "Python 3.13.5 (CPython)", "arch": "x86_64", "options": []},
            "classpath": [],
            "pid": 4711,
        }
        self.documents["config"] = {
            "refresh-interval": 1_000,
            "timezone-name": "Coordinated Universal Time",
            "timezone-offset": 0,
            "flink-version": "penstock-0.1.0",
            "flink-revision": "penstock-0.1.0",
            "features": {
                "web-submit": False,
                "web-cancel": True,
                "web-rescale": False,
                "web-history": False,
            },
        }

    def add(
        self,
        job: Job,
        history: list[JSON],
        failures: list[JSON],
        interval: int,
        text: str = "EUR",
    ) -> None:
        """Adds a job with everything that can be asked about it."""
        done = [each["trigger_timestamp"] for each in history if each["status"] == "COMPLETED"]
        job = replace(job, last_checkpoint_ms=max(done, default=-1))
        self.jobs.append(job)
        base = f"jobs/{job.jid}"
        restored = None
        if job.restarts:
            restored = {
                "id": 118,
                "restore_timestamp": job.started_ms + 40_000,
                "is_savepoint": False,
                "external_path": f"s3://streams/checkpoints/{job.jid}/chk-118",
            }
        self.documents |= {
            base: job_document(job, self.now_ms),
            f"{base}/plan": {"plan": plan_document(job)},
            f"{base}/checkpoints": checkpoints_document(history, restored),
            f"{base}/checkpoints/config": config_document(interval),
            f"{base}/exceptions": exceptions_document(failures),
            f"{base}/effective-config": settings_document(),
            f"{base}/config": {
                "jid": job.jid,
                "name": job.name,
                "execution-config": {
                    "execution-mode": "PIPELINED",
                    "restart-strategy": "exponential-delay 1 s to 1 min",
                    "job-parallelism": max((each.parallelism for each in job.stages), default=1),
                    "object-reuse-mode": False,
                    "user-config": {},
                },
            },
        }
        self.documents[f"{base}/state"] = state_document(job, history)
        self.documents[f"{base}/state/rows"] = rows_document(job, history, text)
        self.texts[f"{base}/log"] = LOG
        for index in range(len(job.stages)):
            self.documents[f"{base}/vertices/{job.vertex(index)}"] = vertex_document(
                job, index, self.now_ms
            )
        for each in history if len(job.stages) < 20 else history[:1]:
            self._add_details(job, each)

    def _add_details(self, job: Job, found: JSON) -> None:
        path = f"jobs/{job.jid}/checkpoints/details/{found['id']}"
        self.documents[path] = details(job, found)
        for index in range(len(job.stages)):
            self.documents[f"{path}/subtasks/{job.vertex(index)}"] = subtasks(job, found, index)

    def finish(self) -> Look:
        """Adds the lists of all jobs."""
        rows = [overview_row(job, self.now_ms) for job in self.jobs]
        ended = lambda state: sum(job.state == state for job in self.jobs)  # noqa: E731
        running = [job for job in self.jobs if job.ended_ms < 0]
        self.documents["jobs/overview"] = {"jobs": rows}
        self.documents["overview"] = {
            "taskmanagers": 2 * len(running),
            "slots-total": 4 * len(running),
            "slots-available": 0,
            "jobs-running": len(running),
            "jobs-finished": ended("FINISHED"),
            "jobs-cancelled": ended("CANCELED"),
            "jobs-failed": ended("FAILED"),
            "flink-version": "penstock-0.1.0",
            "flink-commit": "penstock-0.1.0",
        }
        return self


def recent(job: Job, now_ms: int, count: int, interval_ms: int = 30_000) -> list[JSON]:
    """A history, newest first."""
    newest = 100 + count
    lines = []
    for number in range(newest, 100, -1):
        triggered = now_ms - 8_000 - (newest - number) * interval_ms
        status = "FAILED" if number % 19 == 3 else "COMPLETED"
        lines.append(record(job, number, triggered, status))
    return lines


def normal(now_ms: int) -> Look:
    look = Look(now_ms)
    hour = 3_600_000
    job = Job(1, "minutes per channel", "RUNNING", CHANNELS, now_ms - 26 * hour, restarts=1)
    history = recent(job, now_ms, 24)
    history.insert(0, record(job, 125, now_ms - 600, "IN_PROGRESS"))
    look.add(job, history, [failure(now_ms - 3 * hour, 0)], 30_000)
    second = Job(2, "sessions and late clicks", "RUNNING", CHANNELS[:3], now_ms - hour // 4)
    look.add(second, [], [], NEVER)
    for number, (name, state) in enumerate(
        [
            ("backfill 2026-10", "FINISHED"),
            ("orders with payments", "CANCELED"),
            ("silence alert", "FAILED"),
        ]
    ):
        begun = now_ms - (30 + number * 9) * hour
        old = Job(10 + number, name, state, CHANNELS[:5], begun, begun + 5_123_000)
        failures = [failure(begun + 5_000_000, 0)] if state == "FAILED" else []
        look.add(old, recent(old, begun + 5_123_000, 6), failures, 30_000)
    return look.finish()


def empty(now_ms: int) -> Look:
    look = Look(now_ms)
    look.texts["jobmanager/logs/jobmanager.log"] = ""
    return look.finish()


def failing(now_ms: int) -> Look:
    look = Look(now_ms)
    job = Job(5, "minutes per channel", "RESTARTING", CHANNELS, now_ms - 900_000, restarts=14)
    history = [
        record(job, 140 - number, now_ms - 9_000 - number * 12_000, "FAILED") for number in range(8)
    ]
    history += [
        record(job, 132 - number, now_ms - 110_000 - number * 12_000) for number in range(4)
    ]
    failures = [failure(now_ms - 4_000 - each * 61_000, 14 - each) for each in range(7)]
    look.add(job, history, failures, 12_000)
    return look.finish()


def huge(now_ms: int) -> Look:
    """200 stages, 2,000 checkpoints, long names, and markup wherever text can stand."""
    look = Look(now_ms)
    stages = []
    for number in range(200):
        column, row = divmod(number, 10)
        inputs: tuple[tuple[int, str], ...] = ()
        if column:
            above = (column - 1) * 10
            inputs = ((above + row, "HASH"),)
            if row % 3 == 0:
                inputs += ((above + (row + 3) % 10, "REBALANCE"),)
        words = "enrich with customer master data and normalise " * (number % 3)
        name = f"stage {number} {words}{MARKUP if number % 7 == 0 else ''}"
        stages.append(Stage(name, 16, inputs, 900.0 * number, number * MIB, number % 10 / 10))
    job = Job(
        7,
        f"{MARKUP} {'a very long name ' * 12}",
        "RUNNING",
        tuple(stages),
        now_ms - 7_000_000,
        restarts=3,
    )
    history = recent(job, now_ms, 2_000, 3_000)
    trace = f"{USER_TRACE}{MARKUP}\n" + "x" * 4_000
    look.add(job, history, [failure(now_ms - 50_000, 2, trace, MARKUP)], 3_000, MARKUP)
    for number in range(120):
        begun = now_ms - (number + 2) * 3_600_000
        state = ("FINISHED", "CANCELED", "FAILED")[number % 3]
        look.jobs.append(
            Job(100 + number, f"nightly load {number}", state, CHANNELS, begun, begun + 61_000)
        )
    return look.finish()


LOOKS = {"normal": normal, "empty": empty, "failing": failing, "huge": huge}
