"""Reads partitions inside a worker: one consumer for all of a subtask, a queue for each.

The client fetches ahead, for all partitions at once, between epochs too. What it hands over is
sorted into the queue of its partition, where the reads of the source contract find it. A queue that
does not begin at the position that is asked for is thrown away, and the partition is fetched from
there. How long a read waits depends on what is known:

* At the end of the partition, which the client reports: not at all.
* Behind it, with records at hand: a moment, for those under way.
* Of a partition that was never heard of: up to some seconds, once.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connectors.kafka.client import (
    PENSTOCKS_OWN,
    Connection,
    TopicIds,
    is_lasting,
    library,
    refused,
    translated,
)
from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer, Place
from penstock.connectors.kafka.records import (
    KafkaRecordDeserializationSchema,
    decoded_apart,
    undecodable,
)
from penstock.connectors.source import READ_RECORDS, Budget, ReadResult, SourceReader, Split
from penstock.core.errors import InputError, JobExecutionError
from penstock.core.redaction import shown_value

_log = logging.getLogger("penstock.kafka")

_NO_GROUP: Final = "penstock"
_NOWHERE: Final = -1
_QUEUED_KBYTES: Final = 32 << 10
_FETCH_WAIT_MS: Final = 100
_BACKOFF_MS: Final = 10
_AT_ONCE: Final = 1_000
"""Messages taken from the client at once."""

_HELD_BYTES: Final = 64 << 20
"""If queues of other partitions hold more, these are not fetched any further for now."""

_MOMENT_S: Final = 0.1
_FIRST_S: Final = 3.0
_ASK_COMMITTED_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class KafkaSourceSettings:
    """What the program says about a source."""

    deserializer: KafkaRecordDeserializationSchema
    properties: dict[str, str]
    topics: tuple[str, ...] = ()
    pattern: str = ""  # Of whole names of topics; "" without one.
    places: frozenset[Place] = frozenset()  # Partitions that are named one by one.
    start: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stop: KafkaOffsetsInitializer | None = None
    is_bounded: bool = False
    rejects_to: str | None = None  # Id of the side output of records that cannot be decoded.

    def __repr__(self) -> str:
        shown = {key: shown_value(key, value) for key, value in self.properties.items()}
        return f"KafkaSourceSettings({self.what}, {shown})"

    @property
    def what(self) -> str:
        """Names what is read."""
        if self.pattern:
            return f"topics like '{self.pattern}'"
        if self.topics:
            return ", ".join(f"topic '{topic}'" for topic in self.topics)
        return ", ".join(f"topic '{topic}' [{number}]" for topic, number in sorted(self.places))

    @property
    def group(self) -> str | None:
        return self.properties.get("group.id")

    @property
    def discovery_ms(self) -> int | None:
        """How often new partitions are looked for; None for never again."""
        own = self.properties
        given = own.get(PENSTOCKS_OWN[0], own.get(PENSTOCKS_OWN[1], "300000"))
        return None if self.stop is not None or int(given) <= 0 else int(given)

    def reader_properties(self) -> dict[str, Any]:
        """Returns the settings of a consumer that reads."""
        return {
            "group.id": _NO_GROUP,
            # What a transaction has not committed is nothing.
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": _QUEUED_KBYTES,
            # A partition whose queue is full is fetched again after so long: by default after one
            # second, in which the queue of 100,000 messages is read four times over.
            "fetch.queue.backoff.ms": _BACKOFF_MS,
            # So long a broker holds a request that finds nothing, and with it the next one, for
            # another partition: by default half a second.
            "fetch.wait.max.ms": _FETCH_WAIT_MS,
            **translated(self.properties),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }


class _Partition:
    """One partition: what was fetched of it and not yet read."""

    __slots__ = (
        *("begins_at", "end", "held_bytes", "is_paused", "messages", "patience_s", "place"),
        "tail",
    )

    def __init__(self, place: Place, position: int, begins_at: int) -> None:
        self.place = place
        self.begins_at = begins_at  # While the next message is this one, a later one will do.
        self.messages: list[Any] = []
        self.tail = position  # Where the next message is expected.
        self.end = -1  # Where the client met the end, unless something followed.
        self.patience_s = _FIRST_S
        self.held_bytes = 0
        self.is_paused = False

    @property
    def head(self) -> int:
        """Where the queue begins."""
        return int(self.messages[0].offset()) if self.messages else self.tail


class KafkaReader(SourceReader):
    """Reads the partitions of one subtask."""

    def __init__(self, settings: KafkaSourceSettings) -> None:
        self._settings = settings
        self._connection = Connection(settings.reader_properties())
        self._ids = TopicIds(self._connection)
        self._consumer: Any = None
        self._partitions: dict[Place, _Partition] = {}
        self._positions: dict[Place, int] = {}
        self._committed_offsets: dict[Place, int] = {}
        self._ask_s = 0.0
        self._metrics: Any = None

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        topic, number, stop, topic_id, is_earliest = split.data
        place = topic, number
        if 0 <= stop <= position:
            self._leave(place)
            return ReadResult([], position, finished=True)
        # Its earliest record is the one that is there when it is read for the first time.
        partition = self._at(place, position, split.start if is_earliest else _NOWHERE)
        if topic_id and not self._ids.has_seen(topic, topic_id):
            return ReadResult([], position)  # The broker has not answered yet.
        wanted = min(budget.max_records, READ_RECORDS)
        if stop >= 0:
            wanted = min(wanted, stop - position)
        self._fill(partition, wanted)
        messages = self._taken(partition, wanted, stop)
        reached = messages[-1].offset() + 1 if messages else position
        if not partition.messages:
            # Marks of transactions have offsets, and are no messages.
            reached = max(reached, partition.end)
        if stop >= 0:
            reached = min(reached, stop)
        self._positions[place] = reached
        schema, rejected = self._settings.deserializer, {}
        try:
            values, timestamps = schema.decode(messages)
        except Exception as error:
            tag = self._settings.rejects_to
            if tag is None:
                raise undecodable(schema, messages, error) from error
            values, timestamps, rejected[tag] = decoded_apart(schema, messages)
        if schema.ignores_errors:
            wrong = sum(map(len, rejected.values()))
            self._ignored.inc(len(messages) - len(values) - wrong)
        return ReadResult(
            values,
            reached,
            timestamps,
            finished=0 <= stop <= reached,
            has_more=bool(messages) and (bool(partition.messages) or self._lags(partition)),
            rejected=rejected,
        )

    # -- metrics, by Flink's names ----------------------------------------------------------------

    def register_metrics(self, metrics: Any) -> None:
        self._ignored = metrics.counter("numRecordsInErrors")
        self._metrics = metrics
        metrics.gauge("pendingRecords", lambda: sum(map(self._lag, self._positions)))
        metrics.add_group("KafkaSourceReader").add_group("KafkaConsumer").gauge(
            "records-lag-max", lambda: max(map(self._lag, self._positions), default=0)
        )

    def _register(self, place: Place) -> None:
        topic, number = place
        group = self._metrics.add_group("KafkaSourceReader").add_group("topic", topic)
        group = group.add_group("partition", str(number))
        group.gauge("currentOffset", lambda: self._positions.get(place, 0) - 1)
        group.gauge("committedOffset", lambda: self._committed().get(place, -1))
        group.gauge("records-lag", lambda: self._lag(place))

    def _lag(self, place: Place) -> int:
        """Returns how many records of a partition are not read yet, as far as the client knows."""
        position, partition = self._positions.get(place), self._partitions.get(place)
        if position is None or partition is None or position == partition.end:
            return 0
        bounds = self._consumer.get_watermark_offsets(library().TopicPartition(*place), cached=True)
        return max(0 if bounds is None else bounds[1] - position, 0)

    def _committed(self) -> dict[Place, int]:
        """Returns what the group has committed, asked for now and then."""
        now_s = time.monotonic()
        if self._settings.group is not None and self._positions and now_s >= self._ask_s:
            self._ask_s = now_s + _ASK_COMMITTED_S
            places = [library().TopicPartition(*place) for place in self._positions]
            try:
                found = self._consumer.committed(places, _MOMENT_S)
            except library().KafkaException:
                return self._committed_offsets
            self._committed_offsets = {
                (each.topic, each.partition): each.offset for each in found if each.offset >= 0
            }
        return self._committed_offsets

    # -- queues -----------------------------------------------------------------------------------

    def _at(self, place: Place, position: int, begins_at: int) -> _Partition:
        """Returns the queue of a partition, which begins at a position."""
        known = self._partitions.get(place)
        if known is not None and self._positions[place] == position:
            if known.is_paused and not known.messages:
                known.is_paused = False
                self._consumer.resume([library().TopicPartition(*place)])
            return known
        self._leave(place)
        if self._consumer is None:
            self._consumer = self._connection.consumer()
        self._consumer.incremental_assign([library().TopicPartition(*place, position)])
        self._positions[place] = position
        self._partitions[place] = found = _Partition(place, position, begins_at)
        if self._metrics is not None:
            self._register(place)
        return found

    def _leave(self, place: Place) -> None:
        if self._partitions.pop(place, None) is not None:
            del self._positions[place]
            self._consumer.incremental_unassign([library().TopicPartition(*place)])

    def _taken(self, partition: _Partition, wanted: int, stop: int) -> list[Any]:
        messages = partition.messages[:wanted]
        if stop >= 0 and messages and messages[-1].offset() >= stop:
            # Compacted topics have gaps: the last of them may lie behind the stop.
            messages = [message for message in messages if message.offset() < stop]
            partition.end = max(partition.end, stop)
            partition.messages = []
            return messages
        left = partition.messages[len(messages) :]
        partition.held_bytes = partition.held_bytes * len(left) // (len(left) + len(messages) or 1)
        partition.messages = left
        return messages

    def _lags(self, partition: _Partition) -> bool:
        """Whether the broker has said that there is more."""
        if partition.tail <= partition.end:
            return False
        bounds = self._consumer.get_watermark_offsets(
            library().TopicPartition(*partition.place), cached=True
        )
        return bounds is not None and partition.tail < bounds[1]

    # -- the client -------------------------------------------------------------------------------

    def _fill(self, partition: _Partition, wanted: int) -> None:
        """Waits until a queue has so many messages, or all that there are now."""
        began_s = time.monotonic()
        while len(partition.messages) < wanted:
            if self._pull(0.0, partition):
                began_s = time.monotonic()
                continue
            patience_s = 0.0
            if partition.tail != partition.end:
                knows_end = bool(partition.messages) or partition.patience_s <= 0
                if not knows_end:
                    patience_s = partition.patience_s
                elif self._lags(partition):
                    patience_s = _MOMENT_S
            left_s = began_s + patience_s - time.monotonic()
            if left_s <= 0:
                if patience_s > _MOMENT_S:
                    partition.patience_s = 0.0
                break
            if self._pull(min(left_s, _MOMENT_S), partition):
                began_s = time.monotonic()
        self._connection.check()

    def _pull(self, timeout_s: float, wanted: _Partition) -> bool:
        """Takes what the client has into the queues; returns whether there was anything."""
        kafka = library()
        found = self._consumer.consume(_AT_ONCE, timeout_s)
        if not found:
            return False
        plain = found
        if any(map(kafka.Message.error, found)):
            plain = [each for each in found if each.error() is None]
        if len(self._partitions) == 1:
            (partition,) = self._partitions.values()
            self._take_in(partition, plain)
        else:
            sorted_out: dict[Place, list[Any]] = {}
            places = zip(
                map(kafka.Message.topic, plain), map(kafka.Message.partition, plain), strict=True
            )
            for place, message in zip(places, plain, strict=True):
                if place in sorted_out:
                    sorted_out[place].append(message)
                else:
                    sorted_out[place] = [message]
            for place, messages in sorted_out.items():
                if place in self._partitions:
                    self._take_in(self._partitions[place], messages)
        if plain is not found:
            for each in found:
                if each.error() is not None:
                    self._take_error(each)
        self._pause_others(wanted)
        return True

    def _take_in(self, partition: _Partition, messages: list[Any]) -> None:
        if messages and messages[0].offset() < partition.tail:
            messages = [each for each in messages if each.offset() >= partition.tail]
        if messages:
            partition.messages += messages
            partition.tail = messages[-1].offset() + 1
            partition.end = -1
            partition.patience_s = 0.0
            partition.held_bytes += sum(map(len, messages))

    def _take_error(self, message: Any) -> None:
        kafka = library()
        error = message.error()
        place = message.topic(), message.partition()
        partition = self._partitions.get(place)
        if error.code() == kafka.KafkaError._PARTITION_EOF:
            if partition is not None:
                partition.end = partition.tail = max(partition.tail, message.offset())
                partition.patience_s = 0.0
        elif error.code() in (
            kafka.KafkaError._AUTO_OFFSET_RESET,
            kafka.KafkaError.OFFSET_OUT_OF_RANGE,
        ):
            if partition is None:
                pass
            elif partition.tail == partition.begins_at:
                _log.warning(
                    "Kafka's topic '%s' has no offset %d in partition %d any more, from where it "
                    "should be read for the first time; reading begins with the earliest record.",
                    *(place[0], partition.tail, place[1]),
                )
                self._consumer.incremental_unassign([kafka.TopicPartition(*place)])
                earliest = kafka.TopicPartition(*place, kafka.OFFSET_BEGINNING)
                self._consumer.incremental_assign([earliest])
            else:
                raise self._out_of_range(partition)
        elif is_lasting(error):
            raise refused(f"topic '{place[0]}', partition {place[1]}", error)
        else:
            self._connection.away(error)

    def _out_of_range(self, partition: _Partition) -> JobExecutionError:
        topic, number = partition.place
        text = (
            f"partition {number} of Kafka's topic '{topic}' has no offset {partition.tail} any more"
        )
        try:
            place = library().TopicPartition(topic, number)
            first, last = self._consumer.get_watermark_offsets(place, _FIRST_S)
        except library().KafkaException as error:
            return JobExecutionError(f"{text}, and does not say what it has: {error}")
        return InputError(
            f"{text}: it holds {first} to {last}. Either its retention has removed records that "
            "were not read, or the topic was created again. To go on without them, start without "
            "this checkpoint, or with another uid for the source."
        )

    def _pause_others(self, wanted: _Partition) -> None:
        """Stops fetching a partition that is far ahead of its reads."""
        others = [each for each in self._partitions.values() if each is not wanted]
        if sum(each.held_bytes for each in others) > _HELD_BYTES:
            fullest = max(others, key=lambda each: each.held_bytes)
            if not fullest.is_paused:
                fullest.is_paused = True
                self._consumer.pause([library().TopicPartition(*fullest.place)])

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
