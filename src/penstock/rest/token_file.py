"""The manager's token: made at its start, in a file that only its own user can read.

Whoever holds the token may submit jobs, and that is to run code. On one machine no set-up is
needed: `penstock jobmanager` writes the file, `penstock run` of the same user finds it by the port.
The standard library is enough for this, so the command line can import it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from penstock.core.errors import ConfigurationError

MIN_CHARACTERS: Final = 16
_MAX_BYTES: Final = 4096


def token_path(port: int) -> Path:
    """Returns where the token of the manager on a port of this machine is."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) / "penstock" if runtime else Path.home() / ".penstock"
    return base / f"rest-{port}.token"


def write_token(port: int) -> str:
    """Makes a new token and its file; returns the token.

    Raises:
        ConfigurationError: The directory belongs to somebody else, or cannot be written.
    """
    path = token_path(port)
    token = secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_directory(path.parent)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token + "\n")
        os.replace(draft, path)
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
    if facts.st_uid not in (os.getuid(), 0) or stat.S_IMODE(facts.st_mode) & 0o077:
        raise ConfigurationError(
            f"the token file {path} can be read by others, or is somebody else's. Make a new token "
            "in a file of your own with mode 0600."
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
    with contextlib.suppress(ConfigurationError):
        return read_token(token_path(port))
    return None


def is_loopback(host: str) -> bool:
    """Says whether a host is this machine, spoken to without a network."""
    name = host.strip("[]").lower()
    return name in ("localhost", "::1") or (
        name.startswith("127.") and name.replace(".", "").isdigit()
    )


def _check_directory(directory: Path) -> None:
    facts = directory.stat()
    if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        raise ConfigurationError(
            f"{directory} belongs to somebody else, or others can write to it; the token of the "
            "REST interface would not be safe there. Remove it, or set XDG_RUNTIME_DIR."
        )
