"""Reads versions as data, outside a running job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.clock import EpochClock
from penstock.core.keygroups import LIMIT_MAX_PARALLELISM
from penstock.state.backend import create_backend
from penstock.state.pickles import Pickles
from penstock.state.timed import convert_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.file_area import FileArea
    from penstock.core.handles import KeyedStateVersion
    from penstock.state.tables import Row


def read_entries(
    version: KeyedStateVersion, area: FileArea, pickles: Pickles = Pickles.ALLOW
) -> Iterator[Row]:
    """Yields (state name, kind, key, namespace, value) of everything in a version.

    Kinds are `value`, `list`, `map`, `event_timer` and `processing_timer`. A map yields one row per
    entry with value (map key, map value); a list one row or several, in order. Timers have the name
    "" and their time as value. Last accesses of states with a TTL are left out, and entries that
    expired but were not removed yet are yielded.

    Args:
        version: Of any backend.
        area: Where its files are.
        pickles: ALLOW runs the pickles in it, so it must come from where code may come from; with
            OPAQUE a pickled value or key is an `Opaque`.

    Raises:
        StateError: A file is missing or damaged.
    """
    state = create_backend(version.backend, pickles=pickles).create_state(
        version.first_key_group,
        version.last_key_group,
        # Rows are read from the first to the last, never looked up by key group.
        LIMIT_MAX_PARALLELISM,
        area,
        EpochClock(),
        "(reader)",
    )
    try:
        state.restore((version,))
        for name, kind, key, ns, value in state.entries():
            if state.is_timed(name):
                plain = convert_value(kind, value, to_timed=False, now_ms=0)
                yield name, kind, key, ns, plain
            else:
                yield name, kind, key, ns, value
    finally:
        state.close()
