"""The client library: the only module that imports it, and what users of Java's client expect.

Properties are those of Java's client, as Flink's connector takes them. Most have the same name in
librdkafka; the rest is translated here, or means nothing without Java and is left out.
"""

from __future__ import annotations

import importlib
import logging
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import wait
from typing import Any, Final

from penstock.core.errors import InputError, JobExecutionError, ProgramError, module_of_extra
from penstock.core.redaction import without_secrets

_log = logging.getLogger("penstock.kafka")

PENSTOCKS_OWN: Final = (
    "partition.discovery.interval.ms",
    "flink.partition-discovery.interval-millis",
    "commit.offsets.on.checkpoint",
)
"""Properties that are ours, not the client's."""

_WITHOUT_JAVA: Final = frozenset(
    (
        *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
        *("max.poll.records", "max.block.ms", "default.api.timeout.ms", "zookeeper.connect"),
        *("interceptor.classes", "metric.reporters", "client.id.prefix"),
        *("register.consumer.metrics", "register.producer.metrics", "flink.disable-metrics"),
        *("ssl.keystore.type", "ssl.truststore.type", "ssl.protocol", "ssl.enabled.protocols"),
        *("auto.offset.reset", "auto.commit.interval.ms", "enable.auto.commit"),
        *("sasl.client.callback.handler.class", "sasl.login.callback.handler.class"),
    )
)
_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_LOGIN: Final = re.compile(r"""\b(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_NO_PROPERTY: Final = re.compile(r'No such configuration property: "([^"]+)"')
_ADDRESS: Final = re.compile(
    r"(?:(?:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?[^/\s:]+(?::\d+)?|\[[^/\s]+\](?::\d+)?", re.I
)
_FOREIGN_SCHEME: Final = re.compile(
    r"(?<![^,\s])(?!(?:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)[\w\-%.]*://", re.I
)
"""Kafka's own client passes over any scheme, such as http://."""
_SAID_EVERY_S: Final = 30.0
_FULL_S: Final = 0.1
_ASKED_S: Final = 10.0
_MOMENT_S: Final = 0.1
_FIRST_S: Final = 3.0
_PARTITIONS_S: Final = 300.0


def library() -> Any:
    """Returns the client library.

    Raises:
        EnvironmentError_: It is not installed.
    """
    return module_of_extra("confluent_kafka", "Kafka needs", "confluent-kafka", "kafka")


def translated(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns properties of Java's client as librdkafka has them."""
    return dict(_translated(properties))


def _translated(properties: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for key, value in properties.items():
        if key in ("ssl.truststore.location", "ssl.keystore.location") and (
            value.endswith(".jks") or properties.get(f"{key[:-9]}.type") == "JKS"
        ):
            raise ProgramError(
                f"{key} is {value}, a key store of Java's, which only Java reads. Export it as PEM "
                "(keytool -list -rfc, or openssl pkcs12) and name that: ssl.ca.location, "
                "ssl.certificate.location, ssl.key.location."
            )
        if key == "sasl.jaas.config":
            found = dict(_LOGIN.findall(value))
            if found.keys() != {"username", "password"}:
                raise ProgramError(
                    "sasl.jaas.config names no username and password in quotes. Other "
                    "mechanisms are set by librdkafka's own properties, sasl.kerberos.* or "
                    "sasl.oauthbearer.*."
                )
            for name, quoted in found.items():
                yield f"sasl.{name}", re.sub(r"\\(.)", r"\1", quoted[1:-1])
        elif key == "buffer.memory":
            yield "queue.buffering.max.kbytes", max(1, int(value) >> 10)
        elif key == "ssl.endpoint.identification.algorithm":
            yield key, value or "none"
        elif key not in _WITHOUT_JAVA and key not in PENSTOCKS_OWN:
            yield _RENAMED.get(key, key), value


class Connection:
    """What a consumer or producer says about its brokers, from its own threads.

    Attributes:
        settings: What its constructor takes.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._brokers = _FOREIGN_SCHEME.sub("", str(settings.get("bootstrap.servers")))
        self.settings = {**settings, "bootstrap.servers": self._brokers, "error_cb": self._heard}
        for broker in map(str.strip, self._brokers.split(",")):
            if broker and not _ADDRESS.fullmatch(broker):
                raise ProgramError(
                    f"bootstrap.servers is {without_secrets(self._brokers)!r}; it takes host:port, "
                    "with commas between brokers."
                )
        self._lasting: Any = None
        self._said_s = -_SAID_EVERY_S
        self._admin: Any = None
        self._partitions: dict[str, tuple[list[int], float]] = {}

    def consumer(self) -> Any:
        """Creates a consumer."""
        return self._create("Consumer")

    def producer(self) -> Any:
        """Creates a producer."""
        return self._create("Producer")

    def admin(self) -> Any:
        """Creates a client that asks about topics and brokers."""
        return importlib.import_module("confluent_kafka.admin").AdminClient(
            self.settings, logger=_ClientLog()
        )

    def partitions_of(self, topic: str) -> list[int]:
        """Returns the partitions of a topic, asked for every five minutes."""
        now_s = time.monotonic()
        found, asked_s = self._partitions.get(topic, ([], -math.inf))
        if now_s - asked_s < _PARTITIONS_S:
            return found
        kafka = library()
        self._admin = self._admin or self.admin()
        try:
            of_topic = self._admin.list_topics(topic, timeout=_ASKED_S).topics[topic]
            if of_topic.error is not None:
                raise kafka.KafkaException(of_topic.error)
        except kafka.KafkaException as raised:
            error = raised.args[0]
            if is_lasting(error):
                raise refused(f"topic '{topic}'", error) from None
            raise JobExecutionError(
                f"Kafka at {self._brokers} does not say which partitions topic '{topic}' has: "
                f"{error.str()}."
            ) from None
        found = sorted(of_topic.partitions)
        self._partitions[topic] = found, now_s
        return found

    def offsets_retention_ms(self) -> int | None:
        """Asks a broker how long it keeps offsets of a group; None if it does not say."""
        kafka = library()
        admin = importlib.import_module("confluent_kafka.admin")
        try:
            client = self.admin()
            broker = next(iter(client.list_topics(timeout=_ASKED_S).brokers))
            resource = admin.ConfigResource(admin.ResourceType.BROKER, str(broker))
            [answer] = client.describe_configs([resource], request_timeout=_ASKED_S).values()
            return int(answer.result(_ASKED_S)["offsets.retention.minutes"].value) * 60_000
        except (kafka.KafkaException, TimeoutError, KeyError, StopIteration) as error:
            _log.info("The brokers do not tell their offsets.retention.minutes: %s", error)
            return None

    def _create(self, kind: str) -> Any:
        kafka = library()
        try:
            return getattr(kafka, kind)(self.settings, logger=_ClientLog())
        except kafka.KafkaException as error:
            text = without_secrets(error.args[0].str())
            unknown = _NO_PROPERTY.search(text)
            if unknown:
                raise ProgramError(
                    f"Kafka's client has no property {unknown[1]!r}. It is librdkafka, which has "
                    "most of Java's and its own; see its CONFIGURATION.md."
                ) from None
            raise ProgramError(f"Kafka's client refuses its properties: {text}.") from None

    def _heard(self, error: Any) -> None:
        if is_lasting(error):
            self._lasting = error
        else:
            self.away(error)

    def away(self, error: Any) -> None:
        """Says, now and then, that a broker does not answer and will be asked again."""
        now_s = time.monotonic()
        if now_s - self._said_s >= _SAID_EVERY_S:
            self._said_s = now_s
            _log.warning(
                "Kafka at %s does not answer, trying again: %s", self._brokers, error.str()
            )

    def check(self) -> None:
        """Raises what was heard that will not heal."""
        if self._lasting is not None:
            raise refused(self._brokers, self._lasting)


class TopicIds:
    """The ids of topics: one that was deleted and created again has another id.

    Args:
        connection: To the brokers; those before 2.8 know no ids, and "" stands for them.
    """

    ASK_AGAIN_S = 10.0

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._admin: Any = None
        self._asked: dict[str, Any] = {}
        self._due_s: dict[str, float] = {}
        self._seen: set[str] = set()

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """Asks for the ids of topics, and waits for the answer.

        Raises:
            KafkaException: There is none, or no such topic.
        """
        return {topic: _id(asked) for topic, asked in self._ask(list(topics)).items()}

    def has_seen(self, topic: str, topic_id: str) -> bool:
        """Whether the topic of this id was there; asks now and then, and does not wait long.

        Raises:
            InputError: There is another topic of this name.
        """
        asked, now_s = self._asked.get(topic), time.monotonic()
        patience_s = _MOMENT_S if topic in self._due_s else _FIRST_S
        if asked is None:
            if now_s < self._due_s.get(topic, 0.0):
                return topic in self._seen
            asked = self._asked[topic] = self._ask([topic])[topic]
            self._due_s[topic] = now_s + self.ASK_AGAIN_S
        if topic not in self._seen:
            wait([asked], patience_s)
        if asked.done():
            del self._asked[topic]
            try:
                found = _id(asked)
            except library().KafkaException as raised:
                error = raised.args[0]
                if is_lasting(error) and topic not in self._seen:
                    # A broker that has just started may not know all topics yet.
                    raise JobExecutionError(str(refused(f"topic '{topic}'", error))) from None
                self._connection.away(error)
                self._due_s[topic] = now_s + _MOMENT_S
            else:
                if found != topic_id:
                    raise InputError(
                        f"Kafka's topic '{topic}' was deleted and created again: its id is "
                        f"{found}, and was {topic_id} when this job began to read it. Offsets of "
                        "the deleted topic mean nothing in the new one. To read it, start without "
                        "this checkpoint, or with another uid for the source."
                    )
                self._seen.add(topic)
        return topic in self._seen

    def _ask(self, topics: list[str]) -> dict[str, Any]:
        if self._admin is None:
            self._admin = self._connection.admin()
        asked: dict[str, Any] = self._admin.describe_topics(
            library().TopicCollection(topics), request_timeout=_ASKED_S
        )
        return asked


def _id(asked: Any) -> str:
    topic_id = asked.result().topic_id
    known = topic_id.get_most_significant_bits() or topic_id.get_least_significant_bits()
    return str(topic_id) if known else ""


class _ClientLog:
    """Lines of librdkafka's own log: what matters of them is said as an error."""

    def log(self, level: int, text: str, *arguments: Any) -> None:
        _log.debug(text, *arguments)


_COORDINATOR_COMES: Final = (
    *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"),
    *("UNSTABLE_OFFSET_COMMIT", "_WAIT_COORD"),
)
_COORDINATOR_S: Final = 0.1


def committed_offsets(consumer: Any, places: list[Any], timeout_s: float) -> list[Any]:
    """Returns what the group of a consumer has committed, by no transaction that is still open.

    Not through the library's admin client, which crashes the process where a group moves.

    Raises:
        KafkaException: It cannot be had in time.
    """
    kafka = library()
    ends_s = time.monotonic() + timeout_s
    while True:
        try:
            found: list[Any] = consumer.committed(places, max(ends_s - time.monotonic(), 1.0))
            error = next((each.error for each in found if each.error is not None), None)
            if error is None:
                return found
        except kafka.KafkaException as raised:
            error = raised.args[0]
        if error.name() not in _COORDINATOR_COMES or time.monotonic() >= ends_s:
            raise kafka.KafkaException(error)
        time.sleep(_COORDINATOR_S)


_LASTING: Final = (
    *("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"),
    *("ILLEGAL_SASL_STATE", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"),
    *("CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "_SSL"),
    *("TOPIC_EXCEPTION", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART"),
    *("INVALID_TRANSACTION_TIMEOUT", "MSG_SIZE_TOO_LARGE", "_UNSUPPORTED_FEATURE"),
)


def is_lasting(error: Any) -> bool:
    """Whether an error will be met again however often one tries."""
    return error.name() in _LASTING


def refused(what: str, error: Any) -> InputError:
    """Returns the error for what Kafka refuses, whatever is tried again."""
    text = f"Kafka refuses {what}: {without_secrets(error.str())} ({error.name()})."
    if "UNKNOWN_TOPIC" in error.name():
        text += " Create the topic, or correct its name: topics are not created here."
    return InputError(text)


def produce_all(producer: Any, rows: Iterator[tuple[Any, ...]]) -> None:
    """Hands messages to a producer; waits while its buffer is full."""
    produce = producer.produce
    for topic, value, key, partition, timestamp, headers in rows:
        try:
            # By position, with no callbacks: keywords make the call 1.8 times as long.
            produce(topic, value, key, partition, None, None, timestamp, headers)
        except BufferError:
            while True:
                producer.poll(_FULL_S)
                try:
                    produce(topic, value, key, partition, None, None, timestamp, headers)
                    break
                except BufferError:
                    continue
