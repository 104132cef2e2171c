"""Made-up contents of snapshots, in the shapes of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ui_documents import JSON, Job, Stage

Query = dict[str, str]
KINDS = (
    ("count", "value", "msgpack", "LONG", ""),
    ("prices", "map", "msgpack", "MAP(STRING, ROW(amount DECIMAL, currency STRING))", "1 h, lazy"),
    ("last clicks", "list", "msgpack", "LIST(LONG)", ""),
    ("profile", "value", "pickle", "", ""),
)


def _operator(index: int, stage: Stage) -> JSON:
    states = KINDS[: 1 + index % 4] if stage.state_bytes else ()
    return {
        "uid": f"uid-{index}",
        "name": stage.name,
        "parallelism": stage.parallelism,
        "max_parallelism": 128,
        "key_type": "STRING" if states else "",
        "files": 2 * stage.parallelism if states else 0,
        "file_bytes": stage.state_bytes,
        "inline_bytes": 38 * stage.parallelism,
        "has_source_position": not stage.inputs,
        "has_pending_output": "Sink" in stage.name,
        "event_timers": None,
        "processing_timers": None,
        "note": "",
        "states": [
            dict(zip(("name", "kind", "codec", "type", "ttl"), state, strict=True))
            | {"key_codec": "msgpack", "entries": None}
            for state in states
        ],
    }


def state_document(job: Job, history: list[JSON]) -> Callable[[Query], Any]:
    """Returns what a snapshot holds, by its number."""

    def found(query: Query) -> Any:
        for line in history:
            is_there = line["status"] == "COMPLETED" and not line["discarded"]
            if is_there and query.get("checkpoint") in (None, str(line["id"])):
                return {
                    "path": line["external_path"],
                    "kind": "savepoint-canonical" if line["is_savepoint"] else "checkpoint",
                    "checkpoint_id": line["id"],
                    "job_id": job.jid,
                    "job_name": job.name,
                    "created_ms": line["trigger_timestamp"],
                    "epoch": line["epoch"],
                    "penstock_version": "0.1.0",
                    "total_bytes": line["state_size"],
                    "inline_bytes": line["bytes_inline"],
                    "operators": [_operator(*each) for each in enumerate(job.stages)],
                }
        return 409, {"errors": ["The snapshot is damaged: its _metadata has 14 bytes."]}

    return found


def rows_document(job: Job, history: list[JSON], text: str) -> Callable[[Query], Any]:
    """Returns the first rows of a state."""
    lists = state_document(job, history)

    def found(query: Query) -> Any:
        shown = lists(query)
        if isinstance(shown, tuple) and "or_latest" in query:
            shown = lists({})
        if isinstance(shown, tuple):
            return shown
        name = query.get("state")
        rows = [
            {"kind": kind, "state": state, "key": f"channel-{number}", "namespace": None} | value
            for state, kind, value in _values(text)
            for number in range(1, 4 if name is None else 13)
            if name in (None, state)
        ]
        if query["uid"] == "uid-4":
            rows = []
        return {
            "path": shown["path"],
            "checkpoint_id": shown["checkpoint_id"],
            "uid": query["uid"],
            "state": name,
            "rows": rows,
            "is_truncated": True,
            "unread_bytes": 0 if rows else 102 << 20,
        }

    return found


def _values(text: str) -> list[tuple[str, str, JSON]]:
    price = {"amount": {"$repr": "Decimal('12.50')"}, "currency": text}
    return [
        ("count", "value", {"value": 48_213}),
        ("prices", "map", {"map_key": "2026-11-21", "value": price}),
        ("last clicks", "list", {"value": [1, 2, {"$tuple": [3, "x"]}]}),
        ("profile", "value", {"value": {"$pickle": 412}}),
        ("", "event_timer", {"value": 1_795_298_940_000}),
        ("long", "value", {"value": {"$cut": "word " * 80, "length": 70_123}}),
    ]
