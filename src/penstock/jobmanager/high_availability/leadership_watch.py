"""A driver process among several job managers ends with the leadership that started it.

Its checkpoints are fenced when another job manager takes the job over; this is about all else that
it does, above all about jobs without checkpoints, whose output nothing else would stop. It leaves

* when its job manager is gone: another one is about to go on with the job;
* when the lease says that a later epoch has begun: its job manager may be asleep, or cut off.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.jobmanager.high_availability.coordination import (
    LEASE,
    CoordinationRecords,
    read_coordination,
)
from penstock.jobmanager.job_records import ATTEMPT_BITS

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.core.versioned import VersionedRecord

_LOOK_SECONDS: Final = 0.5
_LOOKS_PER_TIMEOUT: Final = 6
_log = logging.getLogger("penstock.job")


class LeadershipWatch:
    """Looks whether the leadership lasts.

    Args:
        lease: The leader's lease.
        epoch: Epoch of the leader that started this process.
        parent: Number of that leader's process.
        find_parent: Returns the number of the parent; another one when it has died.
    """

    def __init__(
        self,
        lease: VersionedRecord,
        epoch: int,
        parent: int,
        find_parent: Callable[[], int] = os.getppid,
    ) -> None:
        self._lease = lease
        self._epoch = epoch
        self._parent = parent
        self._find_parent = find_parent

    def orphaned(self) -> str | None:
        """Returns why to leave if the job manager is gone."""
        if self._find_parent() == self._parent:
            return None
        return "its job manager is gone, and another one goes on with the job"

    def superseded(self) -> str | None:
        """Returns why to leave if a later leader is known. A lease out of reach says nothing."""
        try:
            current = self._lease.read()
        except PenstockError:
            return None
        if current is None or current.leader_epoch <= self._epoch:
            return None
        return (
            f"leader epoch {current.leader_epoch} has begun, and it was started in epoch "
            f"{self._epoch}"
        )


def watch_leadership(
    configuration: Configuration, attempt_epoch: int, leave: Callable[[], None]
) -> None:
    """Has a thread call `leave` when the leadership has ended; nothing without other managers.

    Args:
        configuration: Of the job.
        attempt_epoch: Epoch in which this attempt writes.
        leave: Ends the process.
    """
    coordination = read_coordination(configuration, attempt_epoch)
    if coordination is None:
        return
    records = CoordinationRecords(coordination.settings, coordination.options)
    watch = LeadershipWatch(records.open(LEASE), attempt_epoch >> ATTEMPT_BITS, os.getppid())
    pause_seconds = coordination.settings.lease_timeout_ms / 1000 / _LOOKS_PER_TIMEOUT
    looks_per_read = max(1, round(pause_seconds / _LOOK_SECONDS))

    def run() -> None:
        number = 0
        waiting = threading.Event()
        while True:
            reason = watch.orphaned()
            if reason is None and number % looks_per_read == 0:
                reason = watch.superseded()
            if reason is not None:
                _log.error("This process ends: %s.", reason)
                leave()
                return
            number += 1
            waiting.wait(_LOOK_SECONDS)

    threading.Thread(target=run, name="penstock-leadership", daemon=True).start()
