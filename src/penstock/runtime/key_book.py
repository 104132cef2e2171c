"""What a sender remembers of keys: a number for each, and its owner."""

from __future__ import annotations

from typing import Any, Final

from penstock.core.keygroups import key_group, numpy_if_there, subtask_of

_SHORT_KEY: Final = 1000
"""Characters of a key that needs no check before its only subtask takes it."""

_PLAIN_KEYS: Final = (int, str)
_MOST_PLAIN_KEYS: Final = 50_000
_MOST_KEYS: Final = 2_000_000
"""Keys that a sender remembers before it starts anew."""


class KeyBook(dict[Any, int]):
    """Numbers the keys that one sender has seen, and knows who owns them.

    A key is hashed once per record, here; from then on until the receiver reads the frame it is a
    small number. That pays as long as the book stays in the processor's cache: with 100,000 keys a
    look-up takes longer than computing owners anew, if they can be computed for many at once.

    Attributes:
        names: Key by number.
        owners: Subtask by number.
        is_plain: Whether all keys are of types that `owners_of` takes.
    """

    def __init__(self, parallelism: int, max_parallelism: int) -> None:
        super().__init__()
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self.names: list[Any] = []
        self.owners: list[int] = []
        self.is_plain = True

    def __missing__(self, key: Any) -> int:
        # First, because it refuses keys without a group.
        owner = self._owner_of(key)
        number = self[key] = len(self.names)
        self.names.append(key)
        self.owners.append(owner)
        if type(key) not in _PLAIN_KEYS:
            self.is_plain = False
        return number

    @property
    def is_full(self) -> bool:
        """Whether its keys are to be forgotten."""
        return len(self) > _MOST_KEYS or self.is_needless

    @property
    def is_needless(self) -> bool:
        """Whether `owners_of` would be faster."""
        return self.is_plain and len(self) > _MOST_PLAIN_KEYS and numpy_if_there() is not None

    def _owner_of(self, key: Any) -> int:
        if self._parallelism == 1 and (
            type(key) is int or (type(key) is str and len(key) <= _SHORT_KEY)
        ):
            return 0
        group = key_group(key, self._max_parallelism)
        return subtask_of(group, self._parallelism, self._max_parallelism)

    def shrink(self) -> None:
        """Forgets all keys; nothing may hold numbers any more."""
        self.clear()
        self.names.clear()
        self.owners.clear()
        self.is_plain = True
