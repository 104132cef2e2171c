"""Timers of the `rocksdb` backend: the nearest in memory, far ones only in rows of the base.

    timer row   TIMER_PREFIX | domain | time (8 bytes, in order) | key group | key | namespace

`horizon` is the time up to which the base's timers are in memory, None when all are. Beyond it only
what changed since the base is in memory. A fold of many timers drops the latest of them; reaching
the horizon reads more. All timers of one instant are in memory together when it comes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from penstock.core.times import MIN_TIMESTAMP
from penstock.state.rocksdb.rows import TIMER_PREFIX, RowKeys, encode_timer, owner_of
from penstock.state.timers import TimerColumns, TimerTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.state.plain_serializer import Pickles
    from penstock.state.rocksdb.base import RocksBase

_TIME: Final = struct.Struct(">Q")
_TIME_START: Final = len(TIMER_PREFIX) + 1
GROUP_START: Final = _TIME_START + _TIME.size
"""Where the key group is in a timer row."""

_NOTHING_LOADED: Final = MIN_TIMESTAMP - 1


class RocksTimerTable(TimerTable):
    """Timers of one domain over a base."""

    def __init__(
        self, base: RocksBase, row_keys: RowKeys, domain: bytes, limit: int, pickles: Pickles
    ) -> None:
        super().__init__()
        self._pickles = pickles
        self._base = base
        self._row_keys = row_keys
        self._prefix = TIMER_PREFIX + domain
        self._limit = limit
        self._horizon: int | None = None
        self._overlay: dict[tuple[int, Any], dict[Any, bool]] = {}
        # Each mark of the overlay differs from the base; otherwise marks stay until the fold.
        self._is_overlay_net = True
        self._frozen: dict[tuple[int, Any], dict[Any, bool]] = {}
        self._is_frozen_net = True

    @property
    def is_empty(self) -> bool:
        return super().is_empty and self._horizon is None

    # -- use ----------------------------------------------------------------------------------

    def add(self, time: int, key: Any, ns: Any) -> None:
        if self._is_far(time) and self._is_in_base(time, key, ns):
            return
        super().add(time, key, ns)

    def remove(self, time: int, key: Any, ns: Any) -> bool:
        if super().remove(time, key, ns):
            return True
        if not self._is_far(time) or not self._is_in_base(time, key, ns):
            return False
        self._changes.setdefault((time, ns), {})[key] = False
        self._forget()
        return True

    def next_time(self) -> int | None:
        nearest = super().next_time()
        while self._horizon is not None and (nearest is None or nearest > self._horizon):
            self._load_more()
            nearest = super().next_time()
        return nearest

    def _is_far(self, time: int) -> bool:
        return self._horizon is not None and time > self._horizon

    def _is_in_base(self, time: int, key: Any, ns: Any) -> bool:
        return not self._is_removed(time, key, ns) and (
            self._base.get(self._row(time, key, ns)) is not None
        )

    def _is_removed(self, time: int, key: Any, ns: Any) -> bool:
        """Returns whether a timer of the base was removed since."""
        for logs in (self._changes, self._overlay, self._frozen):
            change = logs.get((time, ns), {}).get(key)
            if change is not None:
                return not change
        return False

    def _load_more(self) -> None:
        assert self._horizon is not None
        start = self._prefix
        if self._horizon != _NOTHING_LOADED:
            start += _TIME.pack(self._horizon + 1 - MIN_TIMESTAMP)
        last = self._horizon
        rows = self._base.scan(start, self._prefix + b"\xff" * 9)
        for count, (row, data) in enumerate(rows):
            time = _time_of(row)
            if count >= max(1, self._limit // 2) and time != last:
                self._horizon = last
                break
            last = time
            key, ns = owner_of(row, data, self._pickles)
            if not self._is_removed(time, key, ns):
                self._insert(time, key, ns)
        else:
            self._horizon = None
        self._forget()

    # -- versions -----------------------------------------------------------------------------

    def collect(self) -> TimerColumns:
        columns = super().collect()
        self._log_overlay(columns)
        return columns

    def apply(self, columns: TimerColumns, *, is_net: bool = True) -> None:
        super().apply(columns)
        self._is_overlay_net = self._is_overlay_net and is_net
        self._log_overlay(columns)

    def _log_overlay(self, columns: TimerColumns) -> None:
        for time, ns, added, removed in columns:
            log = self._overlay.setdefault((time, ns), {})
            for keys, is_added in ((added, True), (removed, False)):
                for key in keys:
                    # The base has a timer exactly if the first change since removed it, where
                    # every one was a change.
                    if self._is_overlay_net and log.get(key, is_added) is not is_added:
                        del log[key]
                    else:
                        log[key] = is_added
            if not log:
                del self._overlay[time, ns]

    def reset(self) -> None:
        super().reset()
        self._overlay, self._is_overlay_net = {}, True
        self._frozen, self._is_frozen_net = {}, True
        self._horizon = None

    def attach(self, *, has_timers: bool) -> None:
        """Uses the base's timers, which are read when they are due."""
        self._horizon = _NOTHING_LOADED if has_timers else None

    def freeze(self) -> None:
        """What changed since the base is what a fold writes, and another overlay begins."""
        self._frozen, self._is_frozen_net = self._overlay, self._is_overlay_net
        self._overlay, self._is_overlay_net = {}, True

    def unfreeze(self) -> None:
        """The fold was given up."""
        newer = self._overlay
        self._overlay, self._is_overlay_net = self._frozen, self._is_frozen_net
        self._frozen, self._is_frozen_net = {}, True
        for (time, ns), log in newer.items():
            added = [key for key, is_added in log.items() if is_added]
            removed = [key for key, is_added in log.items() if not is_added]
            self._log_overlay([(time, ns, added, removed)])

    def frozen_rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields what is frozen as rows, None for rows to delete."""
        for (time, ns), log in self._frozen.items():
            for key, is_added in log.items():
                yield (
                    self._row(time, key, ns),
                    encode_timer(key, ns, self._pickles) if is_added else None,
                )

    def folded(self) -> None:
        """What is frozen is in the base now; drops the latest timers from memory if many."""
        self._frozen, self._is_frozen_net = {}, True
        in_memory = sum(len(keys) for spaces in self._buckets.values() for keys in spaces.values())
        if in_memory <= self._limit:
            return
        kept, last = 0, self._horizon
        for time in sorted(self._buckets):
            if kept >= max(1, self._limit // 2) or self._is_far(time):
                del self._buckets[time]
                continue
            kept += sum(len(keys) for keys in self._buckets[time].values())
            last = time
        self._horizon = last
        for (time, ns), log in self._overlay.items():
            if self._is_far(time):
                for key in [key for key, is_added in log.items() if is_added]:
                    self._insert(time, key, ns)
        self._forget()

    def all(self) -> Iterator[tuple[int, Any, Any]]:
        yield from super().all()
        if self._horizon is None:
            return
        horizon = self._horizon
        for row, data in self._base.scan_prefix(self._prefix):
            time = _time_of(row)
            if time <= horizon:
                continue
            key, ns = owner_of(row, data, self._pickles)
            is_in_memory = key in self._buckets.get(time, {}).get(ns, ())
            if not is_in_memory and not self._is_removed(time, key, ns):
                yield time, key, ns

    def _row(self, time: int, key: Any, ns: Any) -> bytes:
        return b"".join(
            (
                self._prefix,
                _TIME.pack(time - MIN_TIMESTAMP),
                self._row_keys.of_key(key),
                self._row_keys.of_namespace(ns),
            )
        )


def _time_of(row: bytes) -> int:
    (biased,) = _TIME.unpack_from(row, _TIME_START)
    return int(biased) + MIN_TIMESTAMP
