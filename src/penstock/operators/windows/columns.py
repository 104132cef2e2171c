"""Records of one window as columns, to be added at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

Groups = Mapping[Any, list[Any]]

_SAMPLE = 256


class Columns:
    """Records of one window: keys and values side by side, or grouped by key.

    With few keys, grouping first is fastest; with many, each group costs more than its record.
    """

    __slots__ = ("_groups", "has_many_keys", "keys", "values")

    def __init__(
        self,
        keys: list[Any],
        values: list[Any],
        groups: Groups | None = None,
        *,
        has_many_keys: bool = False,
    ) -> None:
        self.keys = keys
        self.values = values
        self.has_many_keys = has_many_keys
        self._groups = groups

    def groups(self) -> Groups:
        """Returns the values of each key, in order."""
        groups = self._groups
        if groups is None:
            groups = self._groups = group_by_key(self.keys, self.values)
        return groups


def group_by_key(keys: list[Any], values: list[Any]) -> dict[Any, list[Any]]:
    """Returns the values of each key, in order."""
    groups: defaultdict[Any, list[Any]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        groups[key].append(value)
    return groups


def has_many_keys(keys: list[Any]) -> bool:
    """Returns whether about every second record has a key of its own, going by the first ones."""
    sample = keys[:_SAMPLE]
    return 2 * len(set(sample)) > len(sample)
