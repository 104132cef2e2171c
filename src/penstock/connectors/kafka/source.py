"""Kafka as a source: a split for each partition, found by the driver, read by `reader`.

    KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("orders")
        .set_group_id("billing")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()

Positions are offsets, part of every checkpoint; the group's offsets in Kafka follow completed
checkpoints and are for other tools, and for a start with `committed_offsets`.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.connectors.kafka.client import (
    Connection,
    TopicIds,
    is_lasting,
    library,
    refused,
)
from penstock.connectors.kafka.offsets import (
    TIMEOUT_S,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    Place,
    resolve,
)
from penstock.connectors.kafka.reader import KafkaReader, KafkaSourceSettings
from penstock.connectors.kafka.records import KafkaRecordDeserializationSchema
from penstock.connectors.source import Boundedness, Discovery, Source, SourceReader, Split
from penstock.core.errors import InputError, JobExecutionError, ProgramError

if TYPE_CHECKING:
    from penstock.connectors.serialization import DeserializationSchema
    from penstock.core.types import TypeInformation

_log = logging.getLogger("penstock.kafka")

_FIRST_ANSWER_MS: Final = 60_000
"""A source that finds no broker for so long after the start of an attempt fails it."""
_RETRY_MS: Final = 1_000
_CLOSE_S: Final = 5.0
_EARLIEST: Final = KafkaOffsetsInitializer.earliest()


class KafkaSource(Source):
    """Reads topics of Kafka; made by `KafkaSource.builder()`."""

    _default_name = "Kafka Source"

    def __init__(self, settings: KafkaSourceSettings) -> None:
        self._settings = settings
        self._driver: _DriverSide | None = None

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begins a source.

        Example:
            >>> builder = KafkaSource.builder().set_bootstrap_servers("localhost:9092")
            >>> builder = builder.set_topics("words")
            >>> words = builder.set_value_only_deserializer(SimpleStringSchema()).build()
        """
        return KafkaSourceBuilder()

    def __getstate__(self) -> dict[str, Any]:
        return {"_settings": self._settings, "_driver": None}

    @property
    def boundedness(self) -> Boundedness:
        is_bounded = self._settings.is_bounded
        return Boundedness.BOUNDED if is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def discover(self, state: Any, now_ms: int) -> Discovery:
        return self._side().discover(state, now_ms)

    def create_reader(self) -> SourceReader:
        return KafkaReader(self._settings)

    def produced_type(self) -> TypeInformation | None:
        return self._settings.deserializer.get_produced_type()

    def checkpointed(self, positions: Mapping[str, Any], *, by_checkpoint: bool) -> None:
        settings = self._settings
        key = "commit.offsets.on.checkpoint" if by_checkpoint else "enable.auto.commit"
        wanted = settings.properties.get(key, str(by_checkpoint)).lower() == "true"
        if wanted and settings.group is not None and positions:
            self._side().commit(positions)

    def job_ended(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _side(self) -> _DriverSide:
        if self._driver is None:
            self._driver = _DriverSide(self._settings)
        return self._driver


class _DriverSide:
    """What the driver does for a source: finds partitions, commits the offsets of the group."""

    def __init__(self, settings: KafkaSourceSettings) -> None:
        self._settings = settings
        self._connection = Connection(settings.reader_properties())
        self._consumer = self._connection.consumer()
        self._ids = TopicIds(self._connection)
        self._next_ms: int | None = None
        self._first_ms: int | None = None
        self._offsets: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        self._committing: threading.Thread | None = None

    # -- partitions -------------------------------------------------------------------------------

    def discover(self, state: Any, now_ms: int) -> Discovery:
        settings = self._settings
        interval_ms = settings.discovery_ms
        is_complete = interval_ms is None
        if state is not None and (is_complete or (self._next_ms or 0) > now_ms):
            return Discovery((), state, complete=is_complete)
        if state is None and (self._next_ms or 0) > now_ms:
            return Discovery((), None)
        if self._first_ms is None:
            self._first_ms = now_ms
        try:
            found = self._find(set() if state is None else set(state["splits"]), state is None)
        except library().KafkaException as error:
            self._next_ms = now_ms + _RETRY_MS if state is None else now_ms + (interval_ms or 0)
            return self._unanswered(state, error.args[0], now_ms)
        self._next_ms = now_ms + (interval_ms or 0)
        known = [] if state is None else state["splits"]
        if state is not None and found:
            names = ", ".join(split.split_id for split in found)
            _log.info("Kafka has new partitions, read from their beginning: %s", names)
        state = {"splits": [*known, *(split.split_id for split in found)]}
        return Discovery(tuple(found), state, complete=is_complete)

    def _unanswered(self, state: Any, error: Any, now_ms: int) -> Discovery:
        # What the client has heard of a wrong password it says only to those who poll.
        self._consumer.poll(0)
        self._connection.check()
        if is_lasting(error):
            raise refused(self._settings.what, error)
        self._connection.away(error)
        assert self._first_ms is not None
        if state is None and now_ms - self._first_ms >= _FIRST_ANSWER_MS:
            raise JobExecutionError(
                f"Kafka at {self._settings.properties['bootstrap.servers']} has not answered for "
                f"{_FIRST_ANSWER_MS // 1000} s, when asked for {self._settings.what}: "
                f"{error.str()}. Is the address right, and the broker running?"
            )
        return Discovery((), state)

    def _find(self, known: set[str], is_first: bool) -> list[Split]:
        settings = self._settings
        places = [place for place in self._places(is_first) if _split_id(place) not in known]
        # What appears later was not there when the program said where to start.
        start = settings.start if is_first else KafkaOffsetsInitializer.earliest()
        starts = resolve(start, places, self._consumer)
        stops = {} if settings.stop is None else resolve(settings.stop, places, self._consumer)
        ids = self._ids.of({topic for topic, _ in places}) if places else {}
        return [
            Split(
                _split_id(place),
                (*place, stops.get(place, -1), ids[place[0]], start == _EARLIEST),
                starts[place],
                concurrent=True,
            )
            for place in places
        ]

    def _places(self, is_first: bool) -> list[Place]:
        """Returns all partitions that are to be read, in order."""
        settings = self._settings
        if settings.pattern:
            topics = self._consumer.list_topics(timeout=TIMEOUT_S).topics
            like = re.compile(settings.pattern)
            found = {name: topic for name, topic in topics.items() if like.fullmatch(name)}
            if is_first and not found:
                _log.warning("Kafka has no topic like '%s' yet.", settings.pattern)
        else:
            names = settings.topics or sorted({topic for topic, _ in settings.places})
            found = {}
            for name in names:
                found |= self._consumer.list_topics(name, timeout=TIMEOUT_S).topics
        for name, topic in found.items():
            if topic.error is not None:
                if is_lasting(topic.error):
                    raise refused(f"topic '{name}'", topic.error)
                raise library().KafkaException(topic.error)
        places = [
            (name, number) for name in sorted(found) for number in sorted(found[name].partitions)
        ]
        if not settings.places:
            return places
        missing = sorted(settings.places - set(places))
        if missing:
            topic, number = missing[0]
            raise InputError(
                f"Kafka's topic '{topic}' has no partition {number}; it has "
                f"{len(found[topic].partitions)}, from 0."
            )
        return [place for place in places if place in settings.places]

    # -- offsets of the group ---------------------------------------------------------------------

    def commit(self, positions: Mapping[str, Any]) -> None:
        """Has the offsets committed, without waiting for Kafka."""
        if self._committing is None:
            self._committing = threading.Thread(
                target=self._commit_what_comes, name="penstock-kafka-offsets", daemon=True
            )
            self._committing.start()
        self._offsets.put(positions)

    def _commit_what_comes(self) -> None:
        kafka = library()
        while (positions := self._offsets.get()) is not None:
            try:
                self._consumer.commit(
                    offsets=[
                        kafka.TopicPartition(*_place_of(split_id), offset)
                        for split_id, offset in positions.items()
                    ],
                    asynchronous=False,
                )
            except kafka.KafkaException as error:
                _log.warning(
                    "Kafka did not take the offsets of group '%s': %s. Nothing is lost: they are "
                    "in the checkpoint, and are committed again with the next one.",
                    self._settings.group,
                    error.args[0].str(),
                )

    def close(self) -> None:
        if self._committing is not None:
            self._offsets.put(None)
            self._committing.join(_CLOSE_S)
            if self._committing.is_alive():
                return  # It waits for Kafka, and ends with the process.
        self._consumer.close()


def _split_id(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _place_of(split_id: str) -> Place:
    topic, _, number = split_id.rpartition("-")
    return topic, int(number)


class KafkaSourceBuilder:
    """Builds a `KafkaSource`; brokers, what to read, and a deserializer are needed."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._given: dict[str, Any] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Sets the addresses of brokers: `host:port`, with commas between them."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> Self:
        """Sets the group whose offsets follow the checkpoints."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> Self:
        """Reads all partitions of these topics."""
        if not topics or not all(isinstance(topic, str) and topic for topic in topics):
            raise ProgramError(
                f"set_topics{topics!r:.80} takes names of topics: set_topics('orders', 'refunds')."
            )
        return self._what(topics=tuple(dict.fromkeys(topics)))

    def set_topic_pattern(self, topic_pattern: str) -> Self:
        """Reads all topics whose whole name matches a regular expression."""
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise ProgramError(
                f"set_topic_pattern({topic_pattern!r}): {error}. It takes a regular expression of "
                "Python's."
            ) from None
        return self._what(pattern=topic_pattern)

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> Self:
        """Reads these partitions only."""
        return self._what(places=frozenset(each._place for each in partitions))

    def _what(self, **what: Any) -> Self:
        already = {"topics", "pattern", "places"} & self._given.keys()
        if already:
            raise ProgramError(
                "a KafkaSource has either topics, or a topic pattern, or partitions; this builder "
                f"has {already.pop()} already."
            )
        self._given |= what
        return self

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Chooses where to begin when there is no checkpoint; the default is the earliest."""
        return self._offsets("set_starting_offsets", starting_offsets_initializer, "start")

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Ends each partition at an offset; the source is bounded."""
        self._given["is_bounded"] = True
        return self._offsets("set_bounded", stopping_offsets_initializer, "stop")

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Ends each partition at an offset, though the job runs in streaming mode."""
        self._given["is_bounded"] = False
        return self._offsets("set_unbounded", stopping_offsets_initializer, "stop")

    def _offsets(self, verb: str, given: Any, name: str) -> Self:
        if not isinstance(given, KafkaOffsetsInitializer):
            raise ProgramError(
                f"{verb}({given!r:.80}) takes a KafkaOffsetsInitializer, for example "
                "KafkaOffsetsInitializer.latest()."
            )
        self._given[name] = given
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> Self:
        """Makes records of the values alone; tombstones are left out."""
        return self.set_deserializer(
            KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        )

    def set_deserializer(self, deserializer: KafkaRecordDeserializationSchema) -> Self:
        """Makes records of whole messages, with key, headers, offset and timestamp."""
        if not isinstance(deserializer, KafkaRecordDeserializationSchema):
            raise ProgramError(
                f"set_deserializer({deserializer!r:.80}) takes a KafkaRecordDeserializationSchema, "
                "for example KafkaRecordDeserializationSchema.records()."
            )
        self._given["deserializer"] = deserializer
        return self

    def set_on_error(self, on_error: str, output_tag: Any = None) -> Self:
        """Says what happens to a record that cannot be decoded.

        Args:
            on_error: `fail` fails the job, which is the default; `side_output` sends the record to
                a side output, as a `KafkaRecord` of bytes whose last header, `error`, says why.
            output_tag: The `OutputTag` of the side output.

        Example:
            >>> undecodable = OutputTag("undecodable")
            >>> builder = KafkaSource.builder().set_on_error("side_output", undecodable)
        """
        if on_error not in ("fail", "side_output"):
            raise ProgramError(f"set_on_error({on_error!r:.80}): it is 'fail' or 'side_output'.")
        tag = getattr(output_tag, "tag_id", None)
        if (tag is not None) != (on_error == "side_output"):
            raise ProgramError(
                "set_on_error('side_output', OutputTag('undecodable')) needs the OutputTag, and "
                "set_on_error('fail') has none."
            )
        self._given["rejects_to"] = tag
        return self

    def set_client_id_prefix(self, prefix: str) -> Self:
        """Sets what the clients are called in the broker's log."""
        return self.set_property("client.id", prefix)

    def set_property(self, key: str, value: str) -> Self:
        """Sets a property of the client, by the name that Java's or librdkafka has for it."""
        self._properties[str(key)] = str(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> Self:
        """Sets properties of the client."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Returns the source."""
        if not self._properties.get("bootstrap.servers"):
            raise ProgramError("a KafkaSource needs set_bootstrap_servers('host:port').")
        if not {"topics", "pattern", "places"} & self._given.keys():
            raise ProgramError(
                "a KafkaSource needs set_topics(...), set_topic_pattern(...) or "
                "set_partitions(...)."
            )
        if "deserializer" not in self._given:
            raise ProgramError(
                "a KafkaSource needs set_value_only_deserializer(...), for example with "
                "SimpleStringSchema()."
            )
        settings = KafkaSourceSettings(properties=dict(self._properties), **self._given)
        start = settings.start
        if start._kind == "committed" and settings.group is None:
            raise ProgramError(
                "committed_offsets() are those of a group; name it with set_group_id(...)."
            )
        # Properties that no client takes are refused while the program is built.
        Connection(settings.reader_properties()).consumer().close()
        return KafkaSource(settings)
