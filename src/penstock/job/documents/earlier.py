"""What earlier processes of a job told stays: their checkpoints and failures are shown behind ours.

A driver that was killed leaves its documents. The next one starts counting at zero, so it adds what
was counted before; a line of the history that stood IN_PROGRESS then has come to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

_COUNTED: Final = ("restored", "completed", "failed")
_ENDED: Final = ("COMPLETED", "FAILED")


@dataclass(frozen=True, slots=True)
class Earlier:
    """Documents of the process before."""

    # Its lines of checkpoints that had ended, newest first.
    history: tuple[dict[str, Any], ...] = ()
    undone: tuple[int, ...] = ()  # Numbers of those that had not.
    counts: dict[str, int] = field(default_factory=dict)  # How many there were.
    latest: dict[str, Any] = field(default_factory=dict)  # The last of each kind.
    failures: tuple[dict[str, Any], ...] = ()  # Entries of its exceptions, newest first.
    failures_dropped: bool = False  # Whether older ones were forgotten.


def read_earlier(read: Callable[[str], Any]) -> Earlier:
    """Reads what an earlier process told; nothing of it decides anything.

    Args:
        read: Returns a document by its name, or None.
    """
    checkpoints, exceptions = read("checkpoints") or {}, read("exceptions") or {}
    history = exceptions.get("exceptionHistory", {})
    lines = checkpoints.get("history", ())
    return Earlier(
        tuple(line for line in lines if line["status"] in _ENDED),
        tuple(line["id"] for line in lines if line["status"] not in _ENDED),
        dict(checkpoints.get("counts", {})),
        dict(checkpoints.get("latest", {})),
        tuple(history.get("entries", ())),
        bool(history.get("truncated", False)),
    )


def with_earlier_checkpoints(view: dict[str, Any], earlier: Earlier, room: int) -> dict[str, Any]:
    """Returns the document of checkpoints with what came before.

    Args:
        view: Of this process; its history may be encoded already.
        earlier: Of the one before.
        room: Lines that the history may still take.
    """
    counts = dict(view["counts"])
    for name in _COUNTED:
        counts[name] += earlier.counts.get(name, 0)
    # What was in progress when the process died has neither completed nor failed.
    counts["total"] += earlier.counts.get("total", 0) - earlier.counts.get("in_progress", 0)
    latest = {
        name: earlier.latest.get(name) if found is None else found
        for name, found in view["latest"].items()
    }
    history = [*view["history"], *earlier.history[: max(room, 0)]]
    return view | {"counts": counts, "latest": latest, "history": history}


def with_earlier_failures(view: dict[str, Any], earlier: Earlier, most: int) -> dict[str, Any]:
    """Returns the document of exceptions with what came before."""
    history = view["exceptionHistory"]
    entries = [*history["entries"], *earlier.failures]
    truncated = history["truncated"] or earlier.failures_dropped or len(entries) > most
    entries = entries[:most]
    newest = entries[0] if entries else None
    return view | {
        "exceptionHistory": {"entries": entries, "truncated": truncated},
        "root-exception": None if newest is None else newest["stacktrace"],
        "timestamp": None if newest is None else newest["timestamp"],
        "truncated": truncated,
    }
