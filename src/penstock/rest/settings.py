"""Settings of the REST interface, read from `rest.*`, `web.*`, `penstock.rest.*` and checked."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.core.configuration import Configuration
from penstock.core.errors import ConfigurationError
from penstock.rest.trust import is_loopback, read_token, server_files

MAX_BODY_BYTES: Final = 1024 * 1024
MAX_PACKAGE_BYTES: Final = 256 * 1024 * 1024
MAX_STREAMS: Final = 100
_ANY: Final = ("0.0.0.0", "::")


class SnapshotReader(Protocol):
    """Reads snapshots; runs nothing that is in them."""

    def list_states(self, path: str) -> dict[str, Any]:
        """Returns what a snapshot holds, without reading any value."""

    def first_rows(self, path: str, uid: str, state: str | None, limit: int) -> dict[str, Any]:
        """Returns the first rows of a state, reading no more than is bearable."""


@dataclass(frozen=True, slots=True)
class RestSettings:
    """What the routes and their guards depend on."""

    host: str = "127.0.0.1"  # Address that is bound.
    port: int = 8081  # Port that is bound; 0 for a free one.
    advertised: str = "localhost"  # Name or address by which others reach it.
    # What a client must send; None while there is none.
    token: str | None = field(default=None, repr=False)
    tls: tuple[str, str] | None = None  # Files of certificate and private key; None without TLS.
    # Names by which a browser or client may call this service.
    allowed_hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})
    # Below which savepoints may be asked for; empty for anywhere.
    savepoint_roots: tuple[str, ...] = ()
    # Where the token is, for people; empty while it is not known.
    token_place: str = ""
    # Whether all that shows or changes something needs the token, on this machine too.
    require_token: bool = True
    token_in_clear: bool = False  # Whether the token may travel without TLS.
    submit_enabled: bool = False  # Whether a job may be submitted without the token.
    cancel_enabled: bool = True  # Whether jobs may be cancelled.
    refresh_interval_ms: int = 3_000  # How often pages ask.
    # Of this process, to be shown.
    configuration: Configuration = field(default_factory=Configuration)
    snapshots: SnapshotReader | None = None  # Reads snapshots; None where the service cannot.
    shows_rows: bool = True  # Whether values in snapshots may be seen.
    max_body_bytes: int = MAX_BODY_BYTES  # Largest body that is no package.
    max_package_bytes: int = MAX_PACKAGE_BYTES  # Largest job package.
    max_streams: int = MAX_STREAMS  # Event streams at once.

    @property
    def is_open_to_network(self) -> bool:
        """Whether others than this machine can reach the service."""
        return not is_loopback(self.host)


_LAST_PORT: Final = 65_535


def rest_settings(
    configuration: Configuration, host: str | None = None, port: int | None = None
) -> RestSettings:
    """Reads the settings; the token is that of `penstock.rest.token-file`, or None.

    Args:
        configuration: Where from.
        host: Address to bind instead of the configured one.
        port: Port to bind instead of the configured one.

    Raises:
        ConfigurationError: The service would be open to a network and not protected.
    """
    host = host or configuration.get_string("rest.bind-address")
    if port is None:
        port = _bind_port(configuration)
    file = configuration.get_string("penstock.rest.token-file")
    roots = tuple(configuration.get_list("penstock.rest.savepoint-roots"))
    if not is_loopback(host):
        _check_protected(host, file, roots)
    address = configuration.get_string("rest.address")
    advertised = _advertised(host, address)
    return RestSettings(
        host=host,
        port=port,
        advertised=advertised,
        token=read_token(Path(file)) if file else None,
        token_place=file or "",
        require_token=bool(configuration.get_boolean("penstock.rest.require-token")),
        token_in_clear=bool(configuration.get_boolean("penstock.rest.token-in-clear")),
        tls=server_files(configuration),
        allowed_hosts=_allowed_hosts(
            host, address, advertised, *configuration.get_list("penstock.rest.allowed-hosts")
        ),
        savepoint_roots=roots,
        submit_enabled=bool(configuration.get_boolean("web.submit.enable")),
        cancel_enabled=bool(configuration.get_boolean("web.cancel.enable")),
        shows_rows=bool(configuration.get_boolean("penstock.rest.state-rows")),
        refresh_interval_ms=configuration.get_duration_ms("web.refresh-interval"),
        configuration=configuration,
    )


def _bind_port(configuration: Configuration) -> int:
    key = "rest.bind-port" if configuration.get_string("rest.bind-port") else "rest.port"
    text = str(configuration.read(key))
    if not text.isdigit() or int(text) > _LAST_PORT:
        raise ConfigurationError(
            f"{key} is '{text}', but it must be one port, at most {_LAST_PORT}; 0 is a free one."
        )
    return int(text)


def _check_protected(host: str, token_file: str | None, roots: tuple[str, ...]) -> None:
    if not token_file:
        raise ConfigurationError(
            f"rest.bind-address is {host}, which others can reach, and penstock.rest.token-file is "
            "not set: anyone who reaches the port could run code. Put a token into a file of mode "
            "0600 and name it there, or bind 127.0.0.1."
        )
    if not roots:
        raise ConfigurationError(
            f"rest.bind-address is {host}, which others can reach, and "
            "penstock.rest.savepoint-roots is not set: a request could name any directory as the "
            "target of a savepoint. List the directories below which savepoints may lie."
        )


def _advertised(host: str, address: str) -> str:
    if is_loopback(host):
        return "[::1]" if host.strip("[]") == "::1" else "localhost"
    if not is_loopback(address):
        return address
    name = socket.gethostname() if host in _ANY else host.strip("[]")
    return f"[{name}]" if ":" in name else name


def _allowed_hosts(*names: str) -> frozenset[str]:
    plain = {name.strip("[]").lower() for name in names}
    return frozenset({"localhost", "127.0.0.1", "::1", *plain} - set(_ANY))
