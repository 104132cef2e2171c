"""One broker for all tests against Kafka; each test has topics of its own."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_broker import Broker

# The oracle of kills lies there; pytest adds the directories of those tests only that it runs.
sys.path.append(str(Path(__file__).resolve().parents[1]))

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "e2e/kafka" in item.path.as_posix():
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """Skips where there can be no broker, but not where there must be one."""
    from kafka_broker import missing

    if reason := missing():
        if os.environ.get("PENSTOCK_NEEDS_JARS"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def kafka(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    from kafka_broker import Broker

    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic(kafka: Broker) -> Callable[..., str]:
    """Creates topics with names that no other test has."""

    def create(name: str = "topic", partitions: int = 1, **settings: str) -> str:
        return kafka.create_topic(f"{name}-{next(_numbers)}", partitions, **settings)

    return create


@pytest.fixture(scope="session")
def _second(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    from kafka_broker import Broker

    with Broker(tmp_path_factory.mktemp("second")) as broker:
        yield broker


@pytest.fixture
def mortal(_second: Broker) -> Iterator[Broker]:
    """A broker for tests that kill it; each has topics of its own, and finds it running."""
    yield _second
    if not _second.runs:
        _second.start()


@pytest.fixture
def own_broker(kafka_jars: None, tmp_path: Path) -> Iterator[Broker]:
    from kafka_broker import Broker

    directory = tmp_path / "broker"
    directory.mkdir()
    with Broker(directory) as broker:
        yield broker
