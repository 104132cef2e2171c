"""The dicts of one table, by namespace.

User state (namespace None) lies in one dict by key, so that its lookups are one dict access; each
other namespace has a dict of its own, and the one used last is remembered, because windows are
worked on one after the other. A change is written twice, to the entries and to `dirty`: reading
stays one lookup, and a commit copies columns without looking anything up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Spaces:
    """The dicts of the namespaces of one table: entries by key, and changes by key.

    Attributes:
        entries: Entries of namespace None; always this same dict.
        dirty: Changes of namespace None since the last commit; always this same dict.
    """

    __slots__ = ("_last", "_last_dirty", "_last_ns", "_scoped", "_scoped_dirty", "dirty", "entries")

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}
        self.dirty: dict[Any, Any] = {}
        self._scoped: dict[Any, dict[Any, Any]] = {}
        self._scoped_dirty: dict[Any, dict[Any, Any]] = {}
        # `self` is no namespace, so the first lookup goes to the dict.
        self._last_ns: Any = self
        self._last: dict[Any, Any] = {}
        self._last_dirty: dict[Any, Any] = {}

    def read(self, ns: Any) -> dict[Any, Any] | None:
        """Returns the entries of a namespace, if it has any."""
        if ns is None:
            return self.entries
        if ns is self._last_ns:
            return self._last
        return self._scoped.get(ns)

    def write(self, ns: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Returns entries and changes of a namespace, made if missing."""
        if ns is None:
            return self.entries, self.dirty
        if ns is not self._last_ns:
            self._last = self._scoped.setdefault(ns, {})
            self._last_dirty = self._scoped_dirty.setdefault(ns, {})
            self._last_ns = ns
        return self._last, self._last_dirty

    def prune(self, ns: Any) -> None:
        """Drops a namespace's dict once it is empty."""
        if ns is not None and not self._scoped.get(ns, True):
            del self._scoped[ns]
            self._forget()

    def all(self) -> Iterator[tuple[Any, dict[Any, Any]]]:
        if self.entries:
            yield None, self.entries
        yield from self._scoped.items()

    def all_dicts(self) -> list[dict[Any, Any]]:
        """Returns every dict of entries and of changes."""
        scoped = (*self._scoped.values(), *self._scoped_dirty.values())
        return [self.entries, self.dirty, *scoped]

    def changes(self) -> Iterator[tuple[Any, dict[Any, Any], dict[Any, Any]]]:
        """Yields (namespace, changes, entries)."""
        if self.dirty:
            yield None, self.dirty, self.entries
        for ns, dirty in self._scoped_dirty.items():
            if dirty:
                yield ns, dirty, self._scoped.get(ns, {})

    def keep_only(self, kept: dict[Any, dict[Any, Any]]) -> None:
        """Drops all entries but `kept`, by namespace; what is not committed must be among them."""
        self.entries.clear()
        self.entries.update(kept.get(None, {}))
        self._scoped = {ns: dict(found) for ns, found in kept.items() if ns is not None and found}
        self._forget()

    @property
    def is_empty(self) -> bool:
        return not self.entries and not any(self._scoped.values())

    @property
    def is_dirty(self) -> bool:
        return bool(self.dirty) or any(self._scoped_dirty.values())

    def mark_clean(self) -> None:
        self.dirty.clear()
        self._scoped_dirty.clear()
        self._forget()

    def reset(self) -> None:
        self.entries.clear()
        self._scoped.clear()
        self.mark_clean()

    def _forget(self) -> None:
        self._last_ns = self
        self._last = {}
        self._last_dirty = {}
