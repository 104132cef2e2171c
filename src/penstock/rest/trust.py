"""How clients and the job manager trust each other: its token, and TLS.

1. `penstock jobmanager` makes a token at its start, in a file that only its own user can read;
   commands of that user find it by the port. A token file that is configured counts for any place.
2. The token travels over TLS, or over loopback to a process that has proved that it holds the same
   token. After a crash another user's process may have taken the port.
3. The proof is an HMAC of the token over the client's random challenge and the port that is bound,
   so a process cannot have it answered by a job manager on another port. Client and server use the
   connection of the proof for the request: no other process can take that over.

4. TLS is from PEM files in `security.ssl.rest.*`.

The standard library is enough for this, so the command line can import it.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import ssl
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.errors import ConfigurationError
from penstock.files.private import make_private, replace_file

if TYPE_CHECKING:
    from http.client import HTTPConnection

    from penstock.core.configuration import Configuration

MIN_CHARACTERS: Final = 16
CHALLENGE_HEADER: Final = "X-Penstock-Challenge"
PROOF_HEADER: Final = "X-Penstock-Proof"
PROOF_PATH: Final = "/health/live"
TLS_ADVICE: Final = (
    "Set security.ssl.rest.enabled there and here; or go through a tunnel to the same port of this "
    "machine (ssh -L 8081:localhost:8081 host); or set penstock.rest.token-in-clear on a network "
    "that you trust."
)
_MAX_BYTES: Final = 4096


def token_path(port: int) -> Path:
    """Returns where the token of the manager on a port of this machine is."""
    return _places(port)[0]


def _places(port: int) -> list[Path]:
    """Returns where a manager may have written it: one that a service starts has only a home."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    bases = [Path(runtime) / "penstock"] if runtime else []
    return [base / f"rest-{port}.token" for base in (*bases, Path.home() / ".penstock")]


def write_token(port: int) -> str:
    """Makes a new token and its file; returns the token.

    Raises:
        ConfigurationError: The directory belongs to another user, or cannot be written.
    """
    path = token_path(port)
    token = secrets.token_urlsafe(32)
    try:
        make_private(path.parent)
        _check_directory(path.parent)
        replace_file(path, f"{token}\n".encode())
    except OSError as error:
        raise ConfigurationError(
            f"the token of the REST interface cannot be written to {path}: {error}. Set "
            "XDG_RUNTIME_DIR to a directory of your own, or name a file with "
            "penstock.rest.token-file."
        ) from None
    return token


def remove_token(port: int, token: str) -> None:
    """Removes the file at the end of the manager, unless a later one has written its own."""
    path = token_path(port)
    with contextlib.suppress(OSError, ConfigurationError):
        if read_token(path) == token:
            path.unlink()


def read_token(path: Path) -> str:
    """Reads a token that an operator or a manager wrote.

    Raises:
        ConfigurationError: There is none, or others could have read it.
    """
    try:
        # By its descriptor, so that what is checked is what is read.
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            content = file.read(_MAX_BYTES)
    except OSError as error:
        raise ConfigurationError(f"the token file {path} cannot be read: {error}.") from None
    # As PostgreSQL's keys: who may read a file of root's, root has decided. Secrets that Kubernetes
    # mounts are root's, and readable by a group.
    harmful = 0o037 if facts.st_uid == 0 else 0o077
    if facts.st_uid not in (os.getuid(), 0) or stat.S_IMODE(facts.st_mode) & harmful:
        raise ConfigurationError(
            f"the token file {path} has mode {stat.S_IMODE(facts.st_mode):04o} and belongs to user "
            f"{facts.st_uid}: others could have read or written it. Make a new token in a file of "
            "your own with mode 0600, or in one of root's with mode 0640."
        )
    token = content.decode("ascii", "replace").strip()
    if len(token) < MIN_CHARACTERS or not token.isascii() or len(token.split()) != 1:
        raise ConfigurationError(
            f"the token file {path} must hold one word of at least {MIN_CHARACTERS} ASCII "
            "characters, for example from: python -c 'import secrets; "
            "print(secrets.token_urlsafe(32))'."
        )
    return token


def find_token(host: str, port: int, token_file: str | None = None) -> str | None:
    """Returns the token for a manager as far as this user can know it.

    Args:
        host: Where the manager is.
        port: Its port.
        token_file: `penstock.rest.token-file`, which counts for any host.
    """
    if token_file:
        return read_token(Path(token_file))
    if not is_loopback(host):
        return None
    # A manager that was killed leaves its file; the last one that was started counts.
    for place in sorted(filter(Path.exists, _places(port)), key=_modified, reverse=True):
        with contextlib.suppress(ConfigurationError):
            return read_token(place)
    return None


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def proof(token: str, port: int, challenge: str) -> str:
    """Returns what only a holder of the token that listens at the port can answer."""
    message = f"penstock job manager at port {port}: {challenge}"
    return hmac.digest(token.encode(), message.encode(), "sha256").hex()


def has_proved(connection: HTTPConnection, token: str, path: str = "") -> bool:
    """Asks who is at the other end of an open connection, which stays open.

    Args:
        connection: Without requests under way.
        token: What the other end should hold; it is not sent.
        path: Below which the service is, when it is behind a proxy.
    """
    challenge = secrets.token_hex(32)
    connection.request("GET", f"{path}{PROOF_PATH}", headers={CHALLENGE_HEADER: challenge})
    answer = connection.getresponse()
    answer.read()
    # Else the next request could go to another process that listens there by then.
    connection.auto_open = 0
    given = answer.getheader(PROOF_HEADER) or ""
    return hmac.compare_digest(given.encode(), proof(token, connection.port, challenge).encode())


def is_loopback(host: str) -> bool:
    """Says whether a host is this machine, spoken to without a network."""
    name = host.strip("[]").lower()
    return name in ("localhost", "::1") or (
        name.startswith("127.") and name.replace(".", "").isdigit()
    )


def _check_directory(directory: Path) -> None:
    facts = directory.lstat()
    is_own = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
    if not is_own or stat.S_IMODE(facts.st_mode) & 0o022:
        raise ConfigurationError(
            f"{directory} is a link or belongs to another user, or others can write to it: no "
            "place for the token of the REST interface. Remove it, or set XDG_RUNTIME_DIR."
        )
    directory.chmod(0o700)


_TLS: Final = "security.ssl.rest."
_CERTIFICATE: Final = f"{_TLS}certificate"
_KEY: Final = f"{_TLS}private-key"
_AUTHORITY: Final = f"{_TLS}ca-certificate"


def rest_scheme(configuration: Configuration) -> str:
    """Returns `https` when the REST interface speaks TLS, else `http`."""
    return "https" if configuration.get_boolean(f"{_TLS}enabled") else "http"


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
            f"{_TLS}enabled is true, and {_KEY if certificate else _CERTIFICATE} is not set. "
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
