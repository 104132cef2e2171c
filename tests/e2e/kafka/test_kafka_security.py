"""SASL and TLS against a broker with such listeners; the password is nowhere to be seen."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafka_broker import Broker
from penstock.common import Configuration, SimpleStringSchema, WatermarkStrategy
from penstock.core.errors import JobExecutionError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from zookeeper_quorum import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "hush-7193"
MODULE = "org.apache.kafka.common.security"
PLAIN = f'{MODULE}.plain.PlainLoginModule required username="ann" password="{PASSWORD}"'
SCRAM = f'{MODULE}.scram.ScramLoginModule required username="ann" password="{PASSWORD}";'


class Secured:
    """A broker with a listener for SASL, and one for SASL over TLS."""

    def __init__(self, directory: Path) -> None:
        plain, tls, port, controller = free_ports(4)
        self.plain, self.tls = f"127.0.0.1:{plain}", f"127.0.0.1:{tls}"
        self.certificate = directory / "ca.pem"
        key = directory / "key.pem"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
                *("-keyout", key, "-out", self.certificate),
            ],
            check=True,
            capture_output=True,
        )
        both = directory / "both.pem"
        both.write_bytes(key.read_bytes() + self.certificate.read_bytes())
        listeners = f"BROKER://127.0.0.1:{port},SASL://{self.plain},TLS://{self.tls}"
        settings = {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL"
            ),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(both),
        }
        for name in ("sasl", "tls"):
            prefix = f"listener.name.{name}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = f'{PLAIN} user_ann="{PASSWORD}";'
            settings[f"{prefix}.scram-sha-256.sasl.jaas.config"] = SCRAM
        self.broker = Broker(directory, **settings)
        self.broker.address = f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def secured(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.broker as broker:
        scram = UserScramCredentialUpsertion(
            "ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode()
        )
        broker.admin.alter_user_scram_credentials([scram])["ann"].result()
        yield made


def login(secured: Secured, mechanism: str, protocol: str, password: str) -> dict[str, str]:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    properties = {
        "bootstrap.servers": secured.plain if protocol == "SASL_PLAINTEXT" else secured.tls,
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f'{MODULE}.{module}LoginModule required username="ann" password="{password}";'
        ),
    }
    if protocol == "SASL_SSL":
        properties["ssl.truststore.location"] = str(secured.certificate)
    return properties


def copied(properties: dict[str, str], given: str, out: str) -> None:
    """Copies a topic, exactly once."""
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1).enable_checkpointing(100)
    source = KafkaSource.builder().set_properties(properties).set_topics(given)
    source.set_value_only_deserializer(SimpleStringSchema())
    source.set_bounded(KafkaOffsetsInitializer.latest())
    schema: Any = KafkaRecordSerializationSchema.builder().set_topic(out)
    schema = schema.set_value_serialization_schema(SimpleStringSchema()).build()
    sink = KafkaSink.builder().set_record_serializer(schema)
    for key, value in properties.items():
        sink.set_property(key, value)
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "in").uid("in")
    stream.sink_to(sink.build()).uid("out")
    env.execute("copy")


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_read_and_written_with_a_login(
    secured: Secured, caplog: pytest.LogCaptureFixture, mechanism: str, protocol: str
) -> None:
    caplog.set_level("DEBUG")
    names = [f"{mechanism}-{protocol}-{end}" for end in ("in", "out")]
    for name in names:
        secured.broker.create_topic(name)
    secured.broker.produce(names[0], ["a", "b"])
    copied(login(secured, mechanism, protocol, PASSWORD), *names)
    assert secured.broker.values(names[1]) == [b"a", b"b"]
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused_and_not_shown(
    secured: Secured, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    caplog.set_level("DEBUG")
    wrong = "wrong-5521"
    with pytest.raises(JobExecutionError, match="AUTHENTICATION") as caught:
        copied(login(secured, mechanism, "SASL_PLAINTEXT", wrong), "any", "any")
    assert wrong not in f"{caught.value!r}{caught.value.__cause__!r}{caplog.text}"


def test_an_unknown_certificate_is_refused(secured: Secured) -> None:
    properties = login(secured, "PLAIN", "SASL_SSL", PASSWORD)
    del properties["ssl.truststore.location"]
    with pytest.raises(JobExecutionError, match=r"(?i)ssl|certificate"):
        copied(properties, "any", "any")
