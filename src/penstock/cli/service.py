"""Finds the job manager: at `-m`, else by its lease when several may lead, else as configured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.cli.failures import WrongUsageError
from penstock.cli.rest_client import RestClient
from penstock.core.config_file import load_configuration
from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import PenstockError
from penstock.core.options import canonical_key, remark
from penstock.core.tls import client_context, rest_scheme
from penstock.rest.token_file import find_token

if TYPE_CHECKING:
    from penstock.cli.report import Report


def settings_of(pairs: Iterable[str]) -> dict[str, str]:
    """Returns `-D` settings by key; a key alone means true, as for Flink."""
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key.strip():
            raise WrongUsageError(f"-D takes key=value, but got -D{pair}.")
        settings[key.strip()] = value if separator else "true"
    return settings


def notice_remarks(settings: Iterable[str], report: Report) -> None:
    """Says which settings are unknown or change nothing."""
    for key in settings:
        said = remark(canonical_key(key))
        if said:
            report.notice(f"WARNING {key} (-D) {said}")


def configuration_with(settings: dict[str, str]) -> Configuration:
    """Returns the configuration of the file with the command line's settings above it."""
    configuration = load_configuration()
    for key, value in settings.items():
        configuration.put(key, value, Rank.COMMAND_LINE, "-D")
    return configuration


def open_client(configuration: Configuration, address: str | None) -> RestClient:
    """Returns a client of the job manager, which is not asked yet."""
    token_of, scheme = _token_finder(configuration), rest_scheme(configuration)
    tls: dict[str, Any] = {
        "trusted": partial(client_context, configuration),
        "token_in_clear": configuration.get_boolean("penstock.rest.token-in-clear"),
    }
    if address:
        return RestClient(base_url(address, scheme), token_of, **tls)
    host, port = configuration.get_string("rest.address"), configuration.get_integer("rest.port")
    url = base_url(f"{host}:{port}", scheme)
    if configuration.get_enum("high-availability.type") == "NONE":
        return RestClient(url, token_of, **tls)
    from penstock.jobmanager.high_availability.coordination import find_leader_url

    def find_leader() -> str | None:
        found = find_leader_url(configuration)
        return None if found is None else base_url(found, scheme)

    def find_leader_again() -> str | None:
        # A store that is away for a moment does not end what the client waits for.
        with contextlib.suppress(PenstockError):
            return find_leader()
        return None

    return RestClient(find_leader() or url, token_of, find_leader=find_leader_again, **tls)


def base_url(address: str, scheme: str = "http") -> str:
    """Returns the URL of an address such as `localhost:8081`.

    Raises:
        WrongUsageError: It is none.
    """
    if address.startswith("yarn"):
        raise WrongUsageError(
            f"-m {address} is Flink's own way to YARN. Name the job manager's address, as in "
            "-m localhost:8081; jobs run on YARN with -D penstock.spark.master=yarn there."
        )
    wrong = WrongUsageError(
        f'-m "{address}" is not an address; write host:port, as in localhost:8081.'
    )
    try:
        parts = urlsplit(address if "://" in address else f"{scheme}://{address}")
        port = 8081 if parts.port is None else parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise wrong
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"


def _token_finder(configuration: Configuration) -> Callable[[str, int], str | None]:
    file = configuration.get_string("penstock.rest.token-file")
    return lambda host, port: find_token(host, port, file)
