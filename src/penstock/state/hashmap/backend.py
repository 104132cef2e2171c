"""The `hashmap` backend: all state of a subtask in dicts, its base one file.

A base is not sorted by key group: that would cost more than writing it does, once per fold, to save
a filter once per rescale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.state.hashmap.tables import HeapListTable, HeapMapTable, HeapValueTable
from penstock.state.keyed import KeyedState
from penstock.state.payload import Payload, TableColumns

if TYPE_CHECKING:
    from penstock.core.handles import KeyedStateVersion
    from penstock.state.tables import Table

HASHMAP: Final = "hashmap"

_TABLES: Final = {table.kind: table for table in (HeapValueTable, HeapListTable, HeapMapTable)}


class HeapKeyedState(KeyedState):
    """Keyed state in dicts."""

    backend_name = HASHMAP

    def _new_table(self, kind: str, name: str) -> Table:
        return _TABLES[kind](name)

    def _load_base(self, version: KeyedStateVersion) -> None:
        self._replay(version.base)

    def _write_base(self, version_id: str) -> KeyedStateVersion:
        tables = []
        for table in self._tables.values():
            assert isinstance(table, HeapValueTable | HeapListTable | HeapMapTable)
            ttl = self._ttls.get(table.name)
            if ttl is not None and ttl.cleans_images:
                table.expire_all(ttl.deadline_ms)
            columns = table.image()
            tables.append(TableColumns(table.name, table.kind, table.timed, columns, table.schema))
            table.mark_clean()
        payload = Payload(tables, self.event_timers.image(), self.processing_timers.image())
        self.event_timers.mark_clean()
        self.processing_timers.mark_clean()
        handle = self.context.area.write(
            f"{version_id}.base", payload.encode(self.uid, self.context.pickles)
        )
        return self._version(version_id, (handle,))
