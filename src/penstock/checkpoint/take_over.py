"""A new leader locks older ones out of a record, and knows afterwards that it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.checkpoint.errors import FencedError, UnknownOutcomeError
from penstock.core.errors import PenstockError
from penstock.core.versioned import Committed, Outcome, Rejected, Unknown

_TRIES: Final = 20


def is_superseded(confirm_lead: Callable[[], None]) -> bool:
    """Whether a later leader is known to have begun; storage without an answer says nothing."""
    try:
        confirm_lead()
    except FencedError:
        return True
    except PenstockError:
        return False
    return False


def fence(take_over: Callable[[], Outcome], place: str) -> None:
    """Repeats `take_over` until it has happened, or never will.

    Between reading and writing, the older leader may still write: then it is tried again. It loses
    that race at last, because from our first write on each of its own is rejected.

    Raises:
        FencedError: A newer leader was there first.
        UnknownOutcomeError: The storage does not say what came of it.
    """
    outcome: Outcome | None = None
    for _ in range(_TRIES):
        outcome = take_over()
        if isinstance(outcome, Committed):
            return
        if isinstance(outcome, Rejected) and outcome.fenced:
            leader = "nobody" if outcome.current is None else outcome.current.leader_epoch
            raise FencedError(f"the leader of epoch {leader} writes {place} now.")
    reason = outcome.reason if isinstance(outcome, Unknown) else "it changes all the time"
    raise UnknownOutcomeError(f"{place} could not be taken over: {reason}.")
