"""The files of versions: deltas are written, merged and caught up with.

A version on top of another keeps its base and its deltas and adds one. Who holds an ancestor needs
only what was added since; ancestors are recognised by id *and* content, because a zombie attempt
may have written a version of the same id.

Many small deltas become one, without rewriting a large base. What is merged brings any version that
it covers to its end, since columns say what an entry is, or from where a list is new, and not what
to do. Timers and removed entries stay as marks, because a covered version may have them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.core.handles import FileHandle, KeyedStateVersion
from penstock.core.keygroups import key_group
from penstock.state.payload import Payload, TableColumns, decode_payload
from penstock.state.plain_serializer import Pickles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.core.times import EpochClock
    from penstock.files.area import FileArea
    from penstock.state.tables import Columns
    from penstock.state.timers import TimerColumns


@dataclass(frozen=True, slots=True)
class StateContext:
    """What the keyed state of one operator in one subtask is given.

    Attributes:
        first_key_group: First key group of the subtask.
        last_key_group: Last key group of the subtask, inclusive.
        max_parallelism: Number of key groups.
        area: Where the files of versions are.
        clock: Processing time, for the TTL of states.
        uid: Uid of the operator, for errors.
        open_version: Returns the `KeyedState` of a version of any range and backend, to be read.
        pickles: Whether values may be pickled, and pickles be read.
    """

    first_key_group: int
    last_key_group: int
    max_parallelism: int
    area: FileArea
    clock: EpochClock
    uid: str
    open_version: Callable[[KeyedStateVersion, StateContext], Any]
    pickles: Pickles = Pickles.ALLOW

    def owns(self, key: Any) -> bool:
        """Returns whether a key lies in this range of key groups."""
        group = key_group(key, self.max_parallelism)
        return self.first_key_group <= group <= self.last_key_group

    def is_range_of(self, version: KeyedStateVersion) -> bool:
        """Returns whether a version is of exactly this range."""
        mine = (self.first_key_group, self.last_key_group)
        return (version.first_key_group, version.last_key_group) == mine

    def version(
        self, version_id: str, backend: str, base: tuple[FileHandle, ...] = ()
    ) -> KeyedStateVersion:
        """Returns a version of this range without deltas."""
        return KeyedStateVersion(
            version_id,
            backend,
            version_id if base else "",
            base,
            (),
            (),
            self.first_key_group,
            self.last_key_group,
        )


@dataclass(frozen=True, slots=True)
class FoldPolicy:
    """When deltas are merged, and when they are replaced by a new base.

    A base costs as much as the state is large, a delta as much as changed. Folding once the deltas
    outweigh the base keeps both the bytes written and the bytes to restore within a factor of two.
    Many deltas that are small beside the base are merged instead. What is merged is bounded, since
    the epoch waits for it.

    Attributes:
        max_deltas: Most small deltas of a version.
        max_inline_bytes: Most bytes of deltas that travel in their handles, since a version's
            handles go to the worker and back in each epoch.
        min_bytes: Deltas together below this never fold because of their size.
        base_share: Deltas fold once they are this share of the base.
        full_bytes: Deltas from this size on, or from `full_share` of the base, are merged no more.
        full_share: See `full_bytes`; it bounds their number, as far as `merged_bytes` lets it.
        merged_bytes: Most bytes that a commit merges, unless the smallest two deltas have more.
        max_covered: Versions that a merged delta still leads on from; a worker that is further
            behind reads the base.
    """

    max_deltas: int = 32
    max_inline_bytes: int = 64 << 10
    min_bytes: int = 4 << 20
    base_share: float = 1.0
    full_bytes: int = 256 << 10
    full_share: float = 1 / 64
    merged_bytes: int = 256 << 10
    max_covered: int = 64

    def is_due(self, version: KeyedStateVersion) -> bool:
        """Returns whether the next commit on top of `version` writes a base."""
        base = sum(handle.size_bytes for handle in version.base)
        deltas = sum(handle.size_bytes for handle in version.deltas)
        if deltas >= max(self.min_bytes, base * self.base_share):
            return True
        return base <= deltas and self.are_many(version)

    def are_many(self, version: KeyedStateVersion) -> bool:
        """Returns whether the small deltas of a version are to become fewer."""
        small = self.small_deltas(version)
        inline = sum(handle.size_bytes for handle in small if handle.inline is not None)
        return len(small) >= self.max_deltas or inline > self.max_inline_bytes

    def small_deltas(self, version: KeyedStateVersion) -> tuple[FileHandle, ...]:
        """Returns the newest deltas, behind the last one that is full."""
        base = sum(handle.size_bytes for handle in version.base)
        full = max(self.full_bytes, min(base * self.full_share, self.merged_bytes))
        first = len(version.deltas)
        while first > 0 and version.deltas[first - 1].size_bytes < full:
            first -= 1
        return version.deltas[first:]


_MERGED: Final = ".merged"


def is_same(a: KeyedStateVersion, b: KeyedStateVersion) -> bool:
    """Returns whether two versions are one."""
    return a.version_id == b.version_id and _digests(a.files) == _digests(b.files)


class DeltaChain:
    """Reads and writes the deltas of one operator's state.

    Attributes:
        frozen: Number of deltas that a fold under way replaces; no later one is merged with them.
    """

    def __init__(self, context: StateContext, policy: FoldPolicy) -> None:
        self._area = context.area
        self._uid = context.uid
        self._pickles = context.pickles
        self._policy = policy
        self.frozen = 0

    def append(
        self, payload: Payload, held: KeyedStateVersion, version_id: str
    ) -> tuple[KeyedStateVersion, int]:
        """Writes a delta; returns the version that it makes of `held`, and the delta's size."""
        handle = self._area.write(f"{version_id}.delta", payload.encode(self._uid, self._pickles))
        version = replace(
            held,
            version_id=version_id,
            deltas=(*held.deltas, handle),
            delta_ids=(*held.delta_ids, version_id),
        )
        mergeable = replace(version, deltas=version.deltas[self.frozen :])
        small = self._policy.small_deltas(mergeable)
        if len(small) > 1 and self._policy.are_many(mergeable):
            oldest = len(version.deltas) - len(small)
            first, end = run_to_merge(small, self._policy.merged_bytes)
            version = self._merged(version, oldest + first, oldest + end)
        return version, handle.size_bytes

    def _merged(self, version: KeyedStateVersion, first: int, end: int) -> KeyedStateVersion:
        """Returns the same version with its deltas from `first` to before `end` in one file."""
        ids, deltas = version.delta_ids[first:end], version.deltas[first:end]
        reached = [_mark(each, handle) for each, handle in zip(ids, deltas, strict=True)]
        payloads = [self.read(handle) for handle in deltas]
        merged = merge(payloads, reached, self._policy.max_covered)
        handle = self._area.write(
            f"{version.version_id}{_MERGED}", merged.encode(self._uid, self._pickles)
        )
        return replace(
            version,
            deltas=(*version.deltas[:first], handle, *version.deltas[end:]),
            delta_ids=(*version.delta_ids[:first], ids[-1], *version.delta_ids[end:]),
        )

    def missing(
        self, held: KeyedStateVersion, version: KeyedStateVersion
    ) -> Sequence[FileHandle] | None:
        """Returns the deltas that lead from the held version to another, None if there are none.

        None too while a fold runs: it does not include what other workers wrote.
        """
        if self.frozen or _digests(held.base) != _digests(version.base):
            return None
        if not held.deltas:
            return version.deltas if held.version_id == version.base_id else None
        mark = _mark(held.version_id, held.deltas[-1])
        for position, handle in enumerate(version.deltas):
            if _mark(version.delta_ids[position], handle) == mark:
                return version.deltas[position + 1 :]
            if _MERGED in handle.name and mark in self.read(handle).covers:
                return version.deltas[position:]
        return None

    def read(self, handle: FileHandle) -> Payload:
        """Returns the content of a delta, or of a base in the same form."""
        return decode_payload(self._area.read(handle), handle.name, self._pickles)


def _digests(files: Sequence[FileHandle]) -> list[str]:
    return [handle.sha256 for handle in files]


def _mark(version_id: str, delta: FileHandle) -> str:
    """Returns what identifies a version by the delta that reaches it."""
    return f"{version_id} {delta.sha256}"


def run_to_merge(deltas: Sequence[FileHandle], most_bytes: int) -> tuple[int, int]:
    """Returns where the run of deltas that is merged begins, and where it ends.

    It is the oldest run of several deltas of at most `most_bytes` together, among the newest ones
    of like size; where all are larger, the smallest two neighbours. A delta is of like size unless
    it outweighs all newer ones twice, so each byte is rewritten a logarithmic number of times.
    """
    sizes = [delta.size_bytes for delta in deltas]
    first, newer = len(sizes) - 2, sizes[-1]
    while first > 0 and sizes[first - 1] <= 2 * (newer + sizes[first]):
        newer += sizes[first]
        first -= 1
    for start in range(first, len(sizes) - 1):
        end, total = start + 1, sizes[start]
        while end < len(sizes) and total + sizes[end] <= most_bytes:
            total += sizes[end]
            end += 1
        if end > start + 1:
            return start, end
    start = min(range(first, len(sizes) - 1), key=lambda each: sizes[each] + sizes[each + 1])
    return start, start + 2


def merge(payloads: Sequence[Payload], ids: Sequence[str], max_covered: int) -> Payload:
    """Returns one payload that does what `payloads` do in order.

    Args:
        payloads: Oldest first.
        ids: The versions that they reach.
        max_covered: How many of them the payload still leads on from.
    """
    tables: dict[str, list[TableColumns]] = {}
    for payload in payloads:
        for table in payload.tables:
            tables.setdefault(table.name, []).append(table)
    covers = [version for payload in payloads for version in payload.covers]
    return Payload(
        [_merge_tables(versions) for versions in tables.values()],
        _merge_timers([payload.event_timers for payload in payloads]),
        _merge_timers([payload.processing_timers for payload in payloads]),
        (*covers, *ids[:-1])[-max_covered:],
    )


def _merge_tables(tables: list[TableColumns]) -> TableColumns:
    newest = tables[-1]
    merged: dict[Any, dict[Any, Any]] = {}
    combine = {"value": _add_values, "list": _add_lists, "map": _add_maps}[newest.kind]
    for table in tables:
        for ns, *columns in table.columns:
            combine(merged.setdefault(ns, {}), columns)
    result: Columns = []
    for ns, found in merged.items():
        if newest.kind == "value":
            result.append((ns, list(found), list(found.values())))
        else:
            rows = zip(*found.values(), strict=True)
            result.append((ns, list(found), *map(list, rows)))
    return TableColumns(newest.name, newest.kind, newest.timed, result, newest.schema)


def _add_values(found: dict[Any, Any], columns: list[Any]) -> None:
    found.update(zip(*columns, strict=True))


def _add_lists(found: dict[Any, Any], columns: list[Any]) -> None:
    for key, start, items in zip(*columns, strict=True):
        older = found.get(key)
        if older is None or items is None or start < 0:
            found[key] = (start, items)
        elif older[0] < 0:
            # What is below stays hidden, also if the list is empty in between.
            found[key] = (-1, (older[1] or [])[:start] + items)
        elif start <= older[0]:
            found[key] = (start, items)
        else:
            # The list is there, so the older change did not remove it.
            found[key] = (older[0], older[1][: start - older[0]] + items)


def _add_maps(found: dict[Any, Any], columns: list[Any]) -> None:
    for key, cleared, map_keys, values, removed in zip(*columns, strict=True):
        older = found.get(key)
        if older is None or cleared:
            found[key] = (cleared, map_keys, values, removed)
            continue
        entries = dict(zip(older[1], older[2], strict=True))
        gone = dict.fromkeys(older[3])
        for map_key in removed:
            entries.pop(map_key, None)
            gone[map_key] = None
        for map_key, value in zip(map_keys, values, strict=True):
            entries[map_key] = value
            gone.pop(map_key, None)
        found[key] = (older[0], list(entries), list(entries.values()), list(gone))


def _merge_timers(columns: Sequence[TimerColumns]) -> TimerColumns:
    merged: dict[tuple[int, Any], dict[Any, bool]] = {}
    for timers in columns:
        for time, ns, added, removed in timers:
            log = merged.setdefault((time, ns), {})
            log.update(dict.fromkeys(removed, False))
            log.update(dict.fromkeys(added, True))
    return [
        (
            time,
            ns,
            [key for key, is_added in log.items() if is_added],
            [key for key, is_added in log.items() if not is_added],
        )
        for (time, ns), log in merged.items()
    ]
