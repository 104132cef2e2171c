"""Which port REST takes, and what is none."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.core.errors import ConfigurationError
from penstock.rest.settings import rest_settings


@pytest.mark.parametrize(
    ("settings", "port"),
    [
        ({}, 8081),
        ({"rest.port": "9000"}, 9000),
        ({"rest.port": "9000", "rest.bind-port": "0"}, 0),
        ({"rest.port": "65535"}, 65_535),
    ],
)
def test_port(settings: dict[str, str], port: int) -> None:
    assert rest_settings(Configuration.from_dict(settings)).port == port


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("rest.port", "99999"),
        ("rest.port", "-1"),
        ("rest.bind-port", "65536"),
        ("rest.bind-port", "8081-8090"),
    ],
)
def test_what_is_no_port(key: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{key} is '{text}'.*at most 65535"):
        rest_settings(Configuration.from_dict({key: text}))
