"""Properties of Java's client as librdkafka has them, and secrets that nothing shows."""

from __future__ import annotations

import pytest

from penstock.common import SimpleStringSchema
from penstock.connectors.kafka.client import Connection, translated
from penstock.connectors.kafka.reader import KafkaSourceSettings
from penstock.core.errors import ProgramError
from penstock.datastream.connectors.kafka import (
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="ann" password="hush\\"hush";'
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"linger.ms": "5", "acks": "all"}, {"linger.ms": "5", "acks": "all"}),
        ({"fetch.max.wait.ms": "9"}, {"fetch.wait.max.ms": "9"}),
        ({"max.request.size": "9"}, {"message.max.bytes": "9"}),
        ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": 32768}),
        ({"sasl.jaas.config": LOGIN}, {"sasl.username": "ann", "sasl.password": 'hush"hush'}),
        (
            {"sasl.jaas.config": "x.ScramLoginModule required username='ann' password='a b;';"},
            {"sasl.username": "ann", "sasl.password": "a b;"},
        ),
        ({"ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        ({"max.poll.records": "9", "value.serializer": "x", "zookeeper.connect": "z"}, {}),
        ({"partition.discovery.interval.ms": "9"}, {}),
    ],
    ids=str,
)
def test_translation(given: dict[str, str], expected: dict[str, object]) -> None:
    assert translated(given) == expected


def test_key_stores_of_java_say_what_to_do() -> None:
    for given in (
        {"ssl.truststore.location": "/etc/trust.jks"},
        {"ssl.keystore.location": "/etc/keys", "ssl.keystore.type": "JKS"},
    ):
        with pytest.raises(ProgramError, match=r"which only Java reads.*ssl\.ca\.location"):
            translated(given)


def test_a_login_that_is_not_understood() -> None:
    with pytest.raises(ProgramError, match=r"names no username and password"):
        translated({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"})


@pytest.mark.parametrize("given", ["http://host:9092/", "host:port", "host:1,other:1/x", "a b:1"])
def test_addresses_that_no_client_understands(given: str) -> None:
    """The client would ask nobody, and log that brokers are not configured."""
    builder = KafkaSource.builder().set_bootstrap_servers(given).set_topics("any")
    builder.set_value_only_deserializer(SimpleStringSchema())
    with pytest.raises(ProgramError, match=r"bootstrap\.servers is .*it takes host:port"):
        builder.build()


@pytest.mark.parametrize(
    "given", ["host:9092", "host", "a.b-c_d:1, other:2,", "SASL_SSL://host:1", "[::1]:9092"]
)
def test_addresses_that_the_client_understands(given: str) -> None:
    assert Connection({"bootstrap.servers": given}).settings["bootstrap.servers"] == given


def test_a_scheme_before_a_broker_says_nothing_as_for_kafkas_own_client() -> None:
    connection = Connection({"bootstrap.servers": "http://host:9092,kafka://other:1, SSL://c:2"})
    assert connection.settings["bootstrap.servers"] == "host:9092,other:1, SSL://c:2"


def test_records_of_the_end_of_time_have_the_time_of_writing() -> None:
    """Count and global windows emit them; a broker refuses their timestamp."""
    builder = KafkaRecordSerializationSchema.builder().set_topic("any")
    schema = builder.set_value_serialization_schema(SimpleStringSchema()).build()
    assert schema.encode(["a", "b", "c"], [2**63 - 1, 5, -(2**63)]).timestamps == [0, 5, 0]


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "10"), ({"fetch.queue.backoff.ms": "70"}, "70")]
)
def test_a_full_queue_is_fetched_again_soon(given: dict[str, str], expected: str) -> None:
    """The client's own pause of a second is longer than it takes to read a queue to its end."""
    settings = KafkaSourceSettings(
        KafkaRecordDeserializationSchema.value_only(SimpleStringSchema()), given, ("any",)
    )
    assert str(settings.reader_properties()["fetch.queue.backoff.ms"]) == expected


def test_secrets_are_not_shown() -> None:
    secrets = {"sasl.jaas.config": LOGIN, "sasl.password": "hush", "ssl.key.password": "hush"}
    source = KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("any")
    source.set_value_only_deserializer(SimpleStringSchema()).set_properties(secrets)
    serializer = KafkaRecordSerializationSchema.builder().set_topic("any")
    serializer.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers("localhost:1")
    sink.set_record_serializer(serializer.build())
    for key, value in secrets.items():
        sink.set_property(key, value)
    for built in (source.build(), sink.build()):
        shown = repr(vars(built)["_settings"])
        assert "localhost:1" in shown or "sasl.password" in shown
        assert "hush" not in shown
