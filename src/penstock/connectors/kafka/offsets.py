"""Where partitions are read from and to: what the program says, and the offsets that it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from penstock.connectors.kafka.client import committed_offsets, library
from penstock.core.errors import InputError, ProgramError

Place = tuple[str, int]
"""Topic and partition."""

TIMEOUT_S: Final = 5.0
"""How long one request may take; it is repeated."""

_EARLIEST: Final = -2
_LATEST: Final = -1


class KafkaTopicPartition:
    """A partition of a topic."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaTopicPartition) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    def __repr__(self) -> str:
        return f"KafkaTopicPartition({self._topic!r}, {self._partition!r})"

    @property
    def _place(self) -> Place:
        return self._topic, self._partition


class KafkaOffsetResetStrategy(Enum):
    """Where to read when there is no offset, or none within the partition."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class KafkaOffsetsInitializer:
    """Offsets to begin or to stop at; made by its static methods."""

    _kind: str
    _timestamp: int = 0
    _offsets: dict[Place, int] = field(default_factory=dict)
    _reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record of each partition.

        Example:
            >>> KafkaOffsetsInitializer.earliest() == KafkaOffsetsInitializer.earliest()
            True
        """
        return KafkaOffsetsInitializer("earliest")

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Behind the last record of each partition.

        Example:
            >>> KafkaOffsetsInitializer.latest() == KafkaOffsetsInitializer.earliest()
            False
        """
        return KafkaOffsetsInitializer("latest")

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record that is not older than a time in milliseconds.

        Example:
            >>> beginning_of_2026 = KafkaOffsetsInitializer.timestamp(1_767_225_600_000)
        """
        if isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0:
            raise ProgramError(
                f"KafkaOffsetsInitializer.timestamp({timestamp!r}): it takes milliseconds since "
                "1970, as a whole number."
            )
        return KafkaOffsetsInitializer("timestamp", timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """What the group has committed; without that, what the strategy says.

        Example:
            >>> earliest = KafkaOffsetResetStrategy.EARLIEST
            >>> where_it_was = KafkaOffsetsInitializer.committed_offsets(earliest)
        """
        return KafkaOffsetsInitializer("committed", _reset=offset_reset_strategy)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """An offset for each partition; for others the committed one, or by the strategy.

        Example:
            >>> tenth = KafkaOffsetsInitializer.offsets({KafkaTopicPartition("words", 0): 10})
        """
        places = {each._place: int(offset) for each, offset in offsets.items()}
        return KafkaOffsetsInitializer("offsets", 0, places, offset_reset_strategy)


def resolve(
    wanted: KafkaOffsetsInitializer, places: list[Place], consumer: Any
) -> dict[Place, int]:
    """Returns the offset for each partition.

    Raises:
        InputError: There is none, and the program does not say where to read then.
    """
    match wanted._kind:
        case "earliest":
            return _at(_EARLIEST, places, consumer)
        case "latest":
            return _at(_LATEST, places, consumer)
        case "timestamp":
            found = _at(wanted._timestamp, places, consumer)
            behind = [place for place, offset in found.items() if offset < 0]
            return {**found, **_at(_LATEST, behind, consumer)}
    chosen = {place: wanted._offsets[place] for place in places if place in wanted._offsets}
    chosen |= _committed([place for place in places if place not in chosen], consumer)
    return _within_bounds(wanted._reset, places, chosen, consumer)


def _at(time_ms: int, places: list[Place], consumer: Any) -> dict[Place, int]:
    if not places:
        return {}
    asked = [library().TopicPartition(topic, number, time_ms) for topic, number in places]
    return {
        (each.topic, each.partition): each.offset
        for each in _checked(consumer.offsets_for_times(asked, TIMEOUT_S))
    }


def _committed(places: list[Place], consumer: Any) -> dict[Place, int]:
    if not places:
        return {}
    asked = [library().TopicPartition(topic, number) for topic, number in places]
    found = committed_offsets(consumer, asked, TIMEOUT_S)
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def _checked(found: list[Any]) -> list[Any]:
    for each in found:
        if each.error is not None:
            raise library().KafkaException(each.error)
    return found


def _within_bounds(
    reset: KafkaOffsetResetStrategy, places: list[Place], chosen: dict[Place, int], consumer: Any
) -> dict[Place, int]:
    """Returns offsets that are within their partitions; others as the strategy says."""
    first, last = _at(_EARLIEST, places, consumer), _at(_LATEST, places, consumer)
    found = {}
    for place in places:
        offset = chosen.get(place)
        if offset is not None and first[place] <= offset <= last[place]:
            found[place] = offset
        elif reset is KafkaOffsetResetStrategy.EARLIEST:
            found[place] = first[place]
        elif reset is KafkaOffsetResetStrategy.LATEST:
            found[place] = last[place]
        else:
            topic, number = place
            what = "no offset is committed" if offset is None else f"offset {offset} is outside"
            raise InputError(
                f"partition {number} of Kafka's topic '{topic}': {what}; it holds {first[place]} "
                f"to {last[place]}. Give a KafkaOffsetResetStrategy, EARLIEST or LATEST."
            )
    return found
