"""Which subtask gets which record: one class per kind of partitioning.

A partitioner splits batches, at C speed where it can. Whatever state it has is reset at the start
of an epoch to a function of epoch and subtask, so that a retried task deals alike.
"""

from __future__ import annotations

import operator
import random  # noqa: TID251 - only an instance with a seed of the epoch
from abc import ABC, abstractmethod
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from penstock.core.errors import ProgramError, shorten
from penstock.core.keygroups import key_group, numpy_if_there, owners_of, subtask_of
from penstock.core.records import Batch
from penstock.graph.nodes import (
    Broadcast,
    Custom,
    Forward,
    Global,
    KeyGroups,
    PartialAggregates,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.operators.errors import results_of, user_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.basic_types import TypeInformation

_SHORT_KEY: Final = 1000
"""Characters of a key that needs no check before its only subtask takes it."""

_PLAIN_KEYS: Final = (int, str)
_MOST_PLAIN_KEYS: Final = 50_000
_MOST_KEYS: Final = 2_000_000
"""Keys that a sender remembers before it forgets them."""


class KeyBook(dict[Any, int]):
    """Numbers the keys that one sender has seen, and knows who owns them.

    A key is hashed once per record, here; from then on until the receiver reads the frame it is a
    small number. That pays as long as the book stays in the processor's cache: with 100,000 keys a
    look-up takes longer than computing owners, if they can be computed for many at once.

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


class ChannelSelector(ABC):
    """Splits batches among targets."""

    def begin_epoch(self, epoch: int, channel: int) -> None:
        """Resets what must be a function of epoch and subtask only, so that a retry sends alike."""

    @abstractmethod
    def split(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        """Yields targets and their records, in order."""


class ToOne(ChannelSelector):
    """Everything to one target."""

    def __init__(self, target: int) -> None:
        self._target = target

    def split(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        return ((self._target, batch),)


class ToAll(ChannelSelector):
    """Everything to every target."""

    def __init__(self, targets: int) -> None:
        self._targets = targets

    def split(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        return ((target, batch) for target in range(self._targets))


class RoundRobin(ChannelSelector):
    """Record by record over a range of targets, starting where epoch and subtask say."""

    def __init__(self, targets: list[int]) -> None:
        self._targets = targets
        self._next = 0

    def begin_epoch(self, epoch: int, channel: int) -> None:
        self._next = (epoch + channel) % len(self._targets)

    def split(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        count = len(self._targets)
        for offset in range(count):
            part = slice(offset, None, count)
            values = batch.values[part]
            if values:
                timestamps = None if batch.timestamps is None else batch.timestamps[part]
                yield self._targets[(self._next + offset) % count], Batch(values, timestamps)
        self._next = (self._next + len(batch)) % count


class ByFunction(ChannelSelector):
    """By a target number per record."""

    def __init__(self, targets: int, name: str) -> None:
        self._targets = targets
        self._name = name

    @abstractmethod
    def route(self, batch: Batch) -> tuple[list[int], list[Any] | None]:
        """Returns the target of each record, and numbers of keys if batches carry keys.

        With one target, the targets may be left out.
        """

    def split(self, batch: Batch) -> Iterable[tuple[int, Batch]]:
        targets, keys = self.route(batch)
        if self._targets == 1:
            yield 0, Batch(batch.values, batch.timestamps, keys)
        elif self._targets == 2:
            # The commonest case on small machines, and `compress` is twice as fast as indexes.
            yield 0, _select(batch, keys, [not target for target in targets])
            yield 1, _select(batch, keys, targets)
        else:
            indexes: list[list[int]] = [[] for _ in range(self._targets)]
            for index, target in enumerate(targets):
                indexes[target].append(index)
            for target, chosen in enumerate(indexes):
                if chosen:
                    yield target, _gather(batch, keys, chosen)


def _select(batch: Batch, keys: list[Any] | None, chosen: Sequence[bool | int]) -> Batch:
    return Batch(
        list(compress(batch.values, chosen)),
        None if batch.timestamps is None else list(compress(batch.timestamps, chosen)),
        None if keys is None else list(compress(keys, chosen)),
    )


def _gather(batch: Batch, keys: list[Any] | None, chosen: list[int]) -> Batch:
    """Picks records by index; `itemgetter` does it at C speed."""
    if len(chosen) == 1:
        index = chosen[0]
        timestamps = None if batch.timestamps is None else [batch.timestamps[index]]
        return Batch([batch.values[index]], timestamps, None if keys is None else [keys[index]])
    pick: Callable[[Any], tuple[Any, ...]] = operator.itemgetter(*chosen)
    return Batch(
        list(pick(batch.values)),
        None if batch.timestamps is None else list(pick(batch.timestamps)),
        None if keys is None else list(pick(keys)),
    )


class ByKeyGroup(ByFunction):
    """By the key group of the selected key."""

    def __init__(
        self,
        selector: Callable[[Any], Any],
        targets: int,
        max_parallelism: int,
        name: str,
        key_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(targets, name)
        self._selector = selector
        self._key_type = key_type
        self._max_parallelism = max_parallelism
        self.book = KeyBook(targets, max_parallelism)
        self.sends_keys = False

    def forget_keys(self) -> bool:
        """Empties the book; returns whether batches carry keys from now on, not their numbers."""
        self.sends_keys = self.sends_keys or self.book.is_needless
        self.book.shrink()
        return self.sends_keys

    def route(self, batch: Batch) -> tuple[list[int], list[Any] | None]:
        records = iter(batch.values)
        with user_code(self._name, batch.values, records, before="the key selector"):
            try:
                keys = results_of(self._selector, batch.values, records)
            except (TypeError, LookupError) as error:
                if isinstance(self._selector, operator.itemgetter):
                    raise _no_such_field(self._selector, error) from None
                raise
        if self._key_type is not None:
            keys = self._converted(keys, batch.values)
        if self.sends_keys:
            owners = owners_of(keys, self._targets, self._max_parallelism)
            if owners is not None:
                return owners, keys
        try:
            numbers = list(map(self.book.__getitem__, keys))
        except TypeError:
            for value, key in zip(batch.values, keys, strict=True):
                _check_hashable(key, value)
            raise
        except ProgramError as error:
            refused = next(
                value for value, key in zip(batch.values, keys, strict=True) if key not in self.book
            )
            raise ProgramError(
                f"{error}\nat key_by before operator '{self._name}'\n  record: {shorten(refused)}"
            ) from None
        owners = [] if self._targets == 1 else list(map(self.book.owners.__getitem__, numbers))
        return owners, keys if self.sends_keys else numbers

    def _converted(self, keys: list[Any], values: list[Any]) -> list[Any]:
        assert self._key_type is not None
        try:
            return self._key_type.convert_all(keys)
        except Exception:
            # Once more, one by one, so that the error names the record.
            convert = self._key_type.converter() or (lambda key: key)
            records = iter(values)
            with user_code(self._name, values, records, before="the key type"):
                return [convert(key) for key, _ in zip(keys, records, strict=True)]


def _no_such_field(selector: Any, error: Exception) -> ProgramError:
    names = ", ".join(map(repr, selector.__reduce__()[1]))
    return ProgramError(
        f"key_by({names}) takes fields out of records, but this record has none of that name or "
        f"position ({type(error).__name__}: {error}). Names are for Rows and dicts, positions for "
        "tuples; otherwise give a function: key_by(lambda record: ...)."
    )


def _check_hashable(key: Any, value: Any) -> None:
    try:
        hash(key)
    except TypeError:
        raise ProgramError(
            f"a key selector returned {type(key).__name__} {shorten(key)}, which is not hashable, "
            f"for record {shorten(value)}. Return a str, a number or a tuple of them."
        ) from None


class ByGivenKey(ByKeyGroup):
    """By the key group of the key that the batch carries already."""

    def __init__(self, targets: int, max_parallelism: int, name: str) -> None:
        super().__init__(lambda value: value, targets, max_parallelism, name)

    def route(self, batch: Batch) -> tuple[list[int], list[Any] | None]:
        return super().route(Batch(batch.keys or []))


class ByShuffle(ByFunction):
    """Uniformly at random, seeded by epoch and subtask."""

    def begin_epoch(self, epoch: int, channel: int) -> None:
        self._random = random.Random(epoch * 65_537 + channel)

    def route(self, batch: Batch) -> tuple[list[int], list[Any] | None]:
        return self._random.choices(range(self._targets), k=len(batch)), None


class ByUser(ByFunction):
    """By the user's partitioner."""

    def __init__(self, spec: Custom, targets: int, name: str) -> None:
        super().__init__(targets, name)
        self._spec = spec

    def route(self, batch: Batch) -> tuple[list[int], list[Any] | None]:
        partition, selector, count = self._spec.partitioner, self._spec.selector, self._targets
        records = iter(batch.values)
        with user_code(self._name, batch.values, records, before="the partitioner"):
            targets = [partition(selector(value), count) for value in records]
        for value, target in zip(batch.values, targets, strict=True):
            if not isinstance(target, int) or not 0 <= target < count:
                raise ProgramError(
                    f"the partitioner of '{self._name}' returned {target!r} for record "
                    f"{shorten(value)}; it must return an int from 0 to {count - 1}."
                )
        return targets, None


def make_partitioner(  # noqa: PLR0911, PLR0913 - one line per kind
    partitioning: Partitioning,
    *,
    subtask: int,
    parallelism: int,
    targets: int,
    max_parallelism: int,
    name: str,
) -> ChannelSelector:
    """Makes the partitioner of one sending subtask."""
    match partitioning:
        case KeyGroups(selector=selector, key_type=key_type):
            return ByKeyGroup(selector, targets, max_parallelism, name, key_type)
        case PartialAggregates():
            return ByGivenKey(targets, max_parallelism, name)
        case Broadcast():
            return ToAll(targets)
        case Global():
            return ToOne(0)
        case Forward():
            return ToOne(subtask)
        case Custom():
            return ByUser(partitioning, targets, name)
        case Shuffle():
            return ByShuffle(targets, name)
        case Rescale():
            return RoundRobin(rescale_targets(subtask, parallelism, targets))
        case Rebalance():
            return RoundRobin(list(range(targets)))


def rescale_targets(subtask: int, parallelism: int, targets: int) -> list[int]:
    """Returns the local group of a sender, as Flink's pointwise distribution."""
    if targets >= parallelism:
        first = (subtask * targets + parallelism - 1) // parallelism
        last = ((subtask + 1) * targets + parallelism - 1) // parallelism
        return list(range(first, last))
    return [subtask * targets // parallelism]
