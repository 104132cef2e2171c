"""TLS between the REST interface and its clients, from PEM files in `security.ssl.rest.*`."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

PREFIX: Final = "security.ssl.rest."
_CERTIFICATE: Final = f"{PREFIX}certificate"
_KEY: Final = f"{PREFIX}private-key"
_AUTHORITY: Final = f"{PREFIX}ca-certificate"


def rest_scheme(configuration: Configuration) -> str:
    """Returns `https` when the REST interface speaks TLS, else `http`."""
    return "https" if configuration.get_boolean(f"{PREFIX}enabled") else "http"


def server_files(configuration: Configuration) -> tuple[str, str] | None:
    """Returns the files of certificate chain and private key; None without TLS.

    Raises:
        ConfigurationError: They are not set, cannot be read, or do not fit together.
    """
    if rest_scheme(configuration) == "http":
        return None
    certificate = configuration.get_string(_CERTIFICATE)
    key = configuration.get_string(_KEY)
    if not (certificate and key):
        raise ConfigurationError(
            f"{PREFIX}enabled is true, and {_KEY if certificate else _CERTIFICATE} is not set. "
            f"Name the PEM files of the certificate and of its key in {_CERTIFICATE} and {_KEY}."
        )
    try:
        # An empty password, since OpenSSL would ask the terminal for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: b"")
    except OSError as error:
        raise ConfigurationError(
            f"TLS cannot be served with {certificate} and {key}: {_reason(error)}. Both must be "
            "PEM files that this user may read, the key without a password and that of the "
            "certificate."
        ) from None
    return certificate, key


def client_context(configuration: Configuration) -> ssl.SSLContext:
    """Returns whom a client trusts: one authority, or the certificate itself, or the system's.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    authority = configuration.get_string(_AUTHORITY) or configuration.get_string(_CERTIFICATE)
    try:
        return ssl.create_default_context(cafile=authority or None)
    except OSError as error:
        raise ConfigurationError(
            f"{_AUTHORITY} is {authority}, which cannot be used: {_reason(error)}. It must be a "
            "PEM file."
        ) from None


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "it is no PEM").replace("_", " ").lower()
    return error.strerror or str(error)
