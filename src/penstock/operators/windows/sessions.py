"""Session windows under the default trigger, a batch at a time.

1. The records of a key are gathered into its sessions in order of arrival, on numbers only. What a
   session takes in is noted as *parts*: runs of records, and other sessions that it absorbed.
2. If none of them would fire at once, the parts are added to state run by run, and timers are set
   for the windows that came out; windows in between never exist.
3. A key of which a record lies in a session that has fired already is taken record by record.

Runs are folded and sessions merged in the order of the general path, so results are the same even
for functions whose order of arguments matters.
"""

from __future__ import annotations

from typing import Any, cast

from penstock.core.errors import PenstockError, shorten
from penstock.core.times import MAX_TIMESTAMP, MIN_TIMESTAMP, NO_TIMESTAMP
from penstock.operators.errors import function_error
from penstock.operators.windows.aligned import TimedFiring
from penstock.operators.windows.assigners import SessionWindows, missing_timestamp
from penstock.operators.windows.grouping import group_by_key, look_up, write_all
from penstock.operators.windows.operator import WindowLogic, WindowPath
from penstock.operators.windows.windows import MERGING_TABLE, TimeWindow

_FOR_EVER = MAX_TIMESTAMP + 1


class _Session:
    """One session of a key while a batch is gathered.

    Attributes:
        start: Its start so far.
        end: Its end so far.
        home: Its state window.
        before: The window under which its timers are registered, or None.
        parts: Runs of records (lists) and sessions absorbed before the next run (tuples).
        run: The last part, a list, to which records are appended.
        absorbed: Windows in state that became part of it.
    """

    __slots__ = ("absorbed", "before", "end", "home", "parts", "run", "start")

    def __init__(self, start: int, end: int, home: Any, before: TimeWindow | None) -> None:
        self.start = start
        self.end = end
        self.home = home
        self.before = before
        self.run: list[Any] = []
        self.parts: list[Any] = [self.run]
        self.absorbed: list[TimeWindow] = []

    def absorb(self, others: list[_Session]) -> None:
        """Absorbs later sessions; their contents follow those of this one."""
        self.run = []
        self.parts += (tuple(others), self.run)
        for other in others:
            self.end = max(self.end, other.end)
            self.absorbed += other.absorbed
            if other.before is not None:
                self.absorbed.append(other.before)


class SessionPath(WindowPath):
    """Sessions in event time or processing time, with a fixed or a dynamic gap."""

    firing: TimedFiring

    def __init__(self, logic: WindowLogic) -> None:
        self._logic = logic
        self.firing = TimedFiring(logic)
        self._assigner = cast("SessionWindows", logic.assigner)
        self._mappings = logic.state.value_table(MERGING_TABLE)

    def add(self, values: list[Any], timestamps: list[int] | None, keys: list[Any]) -> None:
        logic = self._logic
        if not logic.is_event_time:
            timestamps = [logic.timers.current_processing_time()] * len(values)
        elif timestamps is None:
            raise missing_timestamp(self._assigner, values[0])
        elif NO_TIMESTAMP in timestamps:
            raise missing_timestamp(self._assigner, values[timestamps.index(NO_TIMESTAMP)])
        ends = self._ends(values, timestamps)
        if max(ends) > MAX_TIMESTAMP:
            # Clamped windows have other lengths; they are rare enough.
            logic.add_each(values, timestamps, keys)
            return
        # Windows that end here or before have fired already.
        self._past = logic.watermark + 1 if logic.is_event_time else MIN_TIMESTAMP
        self._late: list[int] = []
        one_by_one: list[int] = []
        positions_of = group_by_key(keys, list(range(len(keys))))
        stored_of = look_up(self._mappings, positions_of, None)
        self._changed: dict[Any, Any] = {}
        for key, positions in positions_of.items():
            stored = stored_of(key)
            if stored is None and len(positions) == 1 and ends[positions[0]] > self._past:
                position = positions[0]
                self._open_session(key, timestamps[position], ends[position], values[position])
                continue
            sessions = [
                _Session(window[0], window[1], home, window) for window, home in stored or ()
            ]
            known = len(self._late)
            if self._gather(sessions, positions, values, timestamps, ends):
                self._apply(key, sessions)
            else:
                del self._late[known:]
                one_by_one += positions
        write_all(self._mappings, None, self._changed)
        self._take_one_by_one(one_by_one, values, timestamps, keys)

    def _ends(self, values: list[Any], timestamps: list[int]) -> list[int]:
        gap = getattr(self._assigner, "gap", None)
        if gap is not None:
            return [timestamp + gap for timestamp in timestamps]
        gap_of, value = self._assigner.gap_of, None
        ends = []
        try:
            for value, timestamp in zip(values, timestamps, strict=True):
                ends.append(timestamp + gap_of(value))
        except PenstockError:
            raise
        except Exception as error:
            raise function_error(error, self._logic.context, shorten(value)) from error
        return ends

    def _open_session(self, key: Any, start: int, end: int, value: Any) -> None:
        """Adds the only record of a key that has no session."""
        window = TimeWindow(start, end)
        self._logic.contents.add_groups(window, {key: [value]})
        self.firing.add_timers((key,), window)
        self._changed[key] = ((window, window),)

    def _gather(
        self,
        sessions: list[_Session],
        positions: list[int],
        values: list[Any],
        starts: list[int],
        ends: list[int],
    ) -> bool:
        """Deals records out to the sessions of their key; returns False if one fires at once."""
        past = self._past
        current: _Session | None = None
        # Between these, `current` may grow without meeting another session.
        low = high = 0
        for position in positions:
            start, end = starts[position], ends[position]
            if (
                current is None
                or start <= low
                or end >= high
                or start > current.end
                or end < current.start
            ):
                current = self._find(sessions, position, start, end)
                if current is None:
                    continue
                low, high = self._bounds(sessions, current)
            current.start = min(current.start, start)
            current.end = max(current.end, end)
            if current.end <= past:
                return False
            current.run.append(values[position])
        return True

    def _find(
        self, sessions: list[_Session], position: int, start: int, end: int
    ) -> _Session | None:
        """Returns the session of a record, new or merged; None if the record is late."""
        met = [session for session in sessions if session.start <= end and session.end >= start]
        if not met:
            window = TimeWindow(start, end)
            logic = self._logic
            if logic.is_event_time and logic.cleanup_time(window) <= logic.watermark:
                self._late.append(position)
                return None
            session = _Session(start, end, window, None)
            sessions.append(session)
            return session
        if len(met) > 1:
            met.sort(key=lambda session: session.start)
            met[0].absorb(met[1:])
            sessions[:] = [session for session in sessions if session not in met[1:]]
        return met[0]

    @staticmethod
    def _bounds(sessions: list[_Session], current: _Session) -> tuple[int, int]:
        if len(sessions) == 1:
            return -_FOR_EVER, _FOR_EVER
        before = [session.end for session in sessions if session.end < current.start]
        after = [session.start for session in sessions if session.start > current.end]
        return max(before, default=-_FOR_EVER), min(after, default=_FOR_EVER)

    def _apply(self, key: Any, sessions: list[_Session]) -> None:
        """Updates state and timers to the sessions that were gathered."""
        mapping = []
        has_changed = False
        for session in sessions:
            window = before = session.before
            if before is None or (session.start, session.end) != before or session.absorbed:
                has_changed = True
                window = TimeWindow(session.start, session.end)
                for old in (*session.absorbed, *(() if before is None else (before,))):
                    self.firing.remove_timers(key, old)
                self.firing.add_timers((key,), window)
            self._add_parts(key, session)
            mapping.append((window, session.home))
        if has_changed:
            mapping.sort()
            self._changed[key] = tuple(mapping)

    def _add_parts(self, key: Any, session: _Session) -> None:
        contents, home = self._logic.contents, session.home
        for part in session.parts:
            if type(part) is tuple:
                for other in part:
                    self._add_parts(key, other)
                self._logic.state.key = key
                contents.merge(key, home, [other.home for other in part])
            elif part:
                contents.add_groups(home, {key: part})

    def _take_one_by_one(
        self, positions: list[int], values: list[Any], timestamps: list[int], keys: list[Any]
    ) -> None:
        """Processes records of keys that fire, and late records, in order of arrival."""
        late = set(self._late)
        for position in sorted(positions + self._late):
            if position in late:
                self._logic.skipped(values[position], timestamps[position])
            else:
                self._logic.add_each([values[position]], [timestamps[position]], [keys[position]])
