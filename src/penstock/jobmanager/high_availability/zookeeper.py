"""Versioned records in ZooKeeper: one node each, replaced on condition of its version.

    <path.root>/<cluster-id>/leader/latch                            the leader's lease
                            /execution-plans                         submitted jobs
                            /jobs/<job-id>/checkpoints               completed checkpoints
                            /jobs/<job-id>/checkpoint_id_counter     ids of checkpoints

ZooKeeper is for small nodes: what is longer than `INLINE_BYTES` goes to a file in the storage
directory, and the node says which, how long it is and its SHA-256. Such a file is written before
the node names it and deleted after the node names another; one whose write had no clear outcome
stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.core.codec import MAGIC_BYTES, DamagedError, seal, unseal
from penstock.core.errors import ConfigurationError, EnvironmentError_, install_extra
from penstock.core.times import jittered
from penstock.core.versioned import Cell, SwapRejectedError, SwapUnknownError
from penstock.files.contract import Content, Storage
from penstock.files.errors import FilesError, ObjectMissingError, StorageError, UnknownOutcomeError

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration


INLINE_BYTES: Final = 4096
"""A record of the usual size, with the ids of the 64 writes it was built upon, stays below."""

_MAGIC: Final = b"\x93PENZOOK"
_VERSION: Final = 1
_TRIES: Final = 10
_PREFIX: Final = "high-availability.zookeeper."
_SEGMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """How to reach ZooKeeper."""

    quorum: str  # `host:port` of its servers, separated by commas.
    root: str  # Node below which everything lies, such as `/flink`.
    session_timeout_ms: int
    connection_timeout_ms: int  # How long to wait for a first connection, and for an answer.
    retry_wait_ms: int  # Longest pause before connecting again.
    max_retries: int  # How often a read is asked again.

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> ZooKeeperSettings:
        """Reads the settings.

        Raises:
            ConfigurationError: Something is missing or malformed.
        """
        quorum = configuration.get_string(_PREFIX + "quorum")
        if not quorum:
            raise ConfigurationError(
                f"high-availability.type is zookeeper, and {_PREFIX}quorum is not set. Set it to "
                "the servers, such as 'zk1:2181,zk2:2181,zk3:2181'."
            )
        client = _PREFIX + "client."
        return cls(
            quorum=",".join(part.strip() for part in re.split("[,;]", quorum) if part.strip()),
            root="/" + names_of(configuration, _PREFIX + "path.root"),
            session_timeout_ms=configuration.get_duration_ms(client + "session-timeout"),
            connection_timeout_ms=configuration.get_duration_ms(client + "connection-timeout"),
            retry_wait_ms=configuration.get_duration_ms(client + "retry-wait"),
            max_retries=configuration.get_integer(client + "max-retry-attempts"),
        )


def names_of(configuration: Configuration, key: str) -> str:
    """Returns a name made of parts, without slashes around it."""
    text = configuration.get_string(key)
    parts = [part for part in text.split("/") if part]
    if not parts or not all(_SEGMENT.fullmatch(part) for part in parts):
        raise ConfigurationError(
            f"{key} is '{text}'; it must be one or more names joined by '/', of letters, digits, "
            "'.', '_' and '-'."
        )
    return "/".join(parts)


class _Elsewhere(msgspec.Struct, frozen=True):
    """Content of a node whose record is in a file."""

    name: str
    size_bytes: int
    sha256: str


class _Token(msgspec.Struct, frozen=True):
    """Which content of the node a cell is."""

    version: int
    name: str | None


class ZooKeeperRecord:
    """A record in a node.

    Args:
        zookeeper: The connection.
        path: Of the node.
        files: Shared directory for long records.
        file_prefix: Beginning of their names, such as `completedCheckpoint`.
        new_name: Returns twelve hex digits that are never used again.
    """

    is_safe = True

    def __init__(
        self,
        zookeeper: ZooKeeper,
        path: str,
        files: Storage,
        file_prefix: str,
        new_name: Callable[[], str],
    ) -> None:
        self._zookeeper = zookeeper
        self._path = path
        self._files = files
        self._file_prefix = file_prefix
        self._new_name = new_name

    @property
    def place(self) -> str:
        return f"{self._zookeeper.place}{self._path}"

    def load(self) -> Cell | None:
        for _ in range(_TRIES):
            found = self._zookeeper.read(self._path)
            if found is None:
                return None
            data, version = found
            if data[:MAGIC_BYTES] != _MAGIC:
                return Cell(data, _Token(version, None))
            elsewhere = _decode(data, self.place)
            try:
                content = self._files.read(
                    elsewhere.name, size_bytes=elsewhere.size_bytes, sha256=elsewhere.sha256
                )
            except ObjectMissingError:
                # The node may name another file by now, and this one be gone for that reason.
                again = self._zookeeper.read(self._path)
                if again is not None and again[1] == version:
                    raise
                continue
            return Cell(content, _Token(version, elsewhere.name))
        raise UnknownOutcomeError(f"{self.place} changes faster than it can be read.")

    def swap(self, expected: Cell | None, data: bytes) -> None:
        name = None
        node = data
        if len(data) > INLINE_BYTES:
            name = f"{self._file_prefix}{self._new_name()}"
            self._files.make_directory("")
            self._files.put_if_absent(name, Content.of_bytes(data))
            digest = hashlib.sha256(data).hexdigest()
            node = seal(
                _MAGIC, _VERSION, msgspec.msgpack.encode(_Elsewhere(name, len(data), digest))
            )
        try:
            if expected is None:
                self._zookeeper.create(self._path, node)
            else:
                self._zookeeper.replace(self._path, node, expected.token.version)
        except SwapUnknownError:
            raise
        except (FilesError, SwapRejectedError):
            self._delete(name)
            raise
        if expected is not None:
            self._delete(expected.token.name)

    def remove(self) -> None:
        """Removes the record, for good; fine when it is not there.

        Raises:
            StorageError: It may still be there.
        """
        found = self._zookeeper.read(self._path)
        self._zookeeper.remove(self._path)
        if found is not None and found[0][:MAGIC_BYTES] == _MAGIC:
            self._delete(_decode(found[0], self.place).name)

    def _delete(self, name: str | None) -> None:
        if name is not None:
            with contextlib.suppress(FilesError):
                self._files.delete(name)


def _decode(data: bytes, place: str) -> _Elsewhere:
    _, view = unseal(data, magic=_MAGIC, newest=_VERSION, what=f"the node {place}")
    try:
        return msgspec.msgpack.decode(view, type=_Elsewhere)
    except msgspec.DecodeError as error:
        raise DamagedError(f"the node {place} is whole but malformed: {error}.") from error


_LONGEST_ANSWER_MS: Final = 5_000
_FIRST_PAUSE_SECONDS: Final = 0.1


class ZooKeeper:
    """A connected client."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        try:
            import kazoo.client
            import kazoo.exceptions
            import kazoo.retry
        except ImportError as error:
            raise EnvironmentError_(
                "high-availability.type is zookeeper, which needs the package kazoo. Install it "
                f"with: {install_extra('zookeeper')}."
            ) from error
        self._settings = settings
        self._errors = kazoo.exceptions
        self._refusals = (
            self._errors.AuthFailedError,
            self._errors.InvalidACLError,
            self._errors.NoAuthError,
            self._errors.NoChildrenForEphemeralsError,
            self._errors.QuotaExceededError,
        )
        # An answer that takes longer than a renewal is due comes too late for the lease anyway.
        self._answer_seconds = (
            min(settings.connection_timeout_ms, settings.session_timeout_ms, _LONGEST_ANSWER_MS)
            / 1000
        )
        self._client = kazoo.client.KazooClient(
            hosts=settings.quorum,
            timeout=settings.session_timeout_ms / 1000,
            logger=_client_log(),
            connection_retry=kazoo.retry.KazooRetry(
                max_tries=-1,
                delay=min(0.1, settings.retry_wait_ms / 1000),
                max_delay=settings.retry_wait_ms / 1000,
            ),
        )
        self._connect()

    @property
    def place(self) -> str:
        return f"zookeeper://{self._settings.quorum}"

    def read(self, path: str) -> tuple[bytes, int] | None:
        """Returns the newest content of a node and its version, or None when there is no node.

        Raises:
            StorageError: There is no answer.
        """
        pause = _FIRST_PAUSE_SECONDS
        for left in range(self._settings.max_retries, -1, -1):
            try:
                # A server may lag behind the others; after `sync` it does not.
                self._request("sync_async", path)
                data, stat = self._request("get_async", path)
                return data, stat.version
            except self._errors.NoNodeError:
                return None
            except Exception as error:
                failure = self._failure("read", path, error)
                if left == 0 or not failure.retryable or not self._client.connected:
                    raise failure from error
            time.sleep(jittered(pause))
            pause *= 2
        raise AssertionError("unreachable")

    def create(self, path: str, data: bytes) -> None:
        """Makes a node and those above it.

        Raises:
            SwapRejectedError: It exists.
            SwapUnknownError: It may have been made.
            StorageError: It was not made.
        """
        try:
            self._change("create_async", path, data)
        except self._errors.NoNodeError:
            self._make_parents(path)
            self._change("create_async", path, data)

    def replace(self, path: str, data: bytes, version: int) -> None:
        """Replaces the content of a node if it still has the version.

        Raises:
            SwapRejectedError: It has another one.
            SwapUnknownError: It may have been replaced.
            StorageError: It was not replaced.
        """
        try:
            self._change("set_async", path, data, version)
        except self._errors.NoNodeError as error:
            raise SwapRejectedError(f"{self.place}{path} does not exist any more.") from error

    def remove(self, path: str) -> None:
        """Removes a node and all below it; fine when it is not there.

        Raises:
            StorageError: It may still be there.
        """
        try:
            names = self._request("get_children_async", path)
            for name in names:
                self.remove(f"{path}/{name}")
            self._request("delete_async", path)
        except self._errors.NoNodeError:
            return
        except StorageError:
            raise
        except Exception as error:
            raise self._failure("remove", path, error) from error

    def close(self) -> None:
        with contextlib.suppress(self._errors.WriterNotClosedException):
            self._client.stop()
            self._client.close()

    # -- details ------------------------------------------------------------------------------

    def _connect(self) -> None:
        started = self._client.start_async()
        seconds = self._settings.connection_timeout_ms / 1000
        if started.wait(seconds) and self._client.connected:
            return
        self.close()
        raise ConfigurationError(
            f"no ZooKeeper of high-availability.zookeeper.quorum = '{self._settings.quorum}' "
            f"answered within {self._settings.connection_timeout_ms} ms. Check the addresses, and "
            "that more than half of its servers run."
        )

    def _request(self, name: str, *arguments: Any) -> Any:
        if not self._client.connected:
            raise StorageError(f"there is no connection to {self.place}.")
        return getattr(self._client, name)(*arguments).get(timeout=self._answer_seconds)

    def _change(self, name: str, path: str, *arguments: Any) -> None:
        try:
            self._request(name, path, *arguments)
        except (self._errors.NodeExistsError, self._errors.BadVersionError) as error:
            raise SwapRejectedError(f"{self.place}{path} holds something else.") from error
        except (StorageError, self._errors.NoNodeError):
            raise
        except Exception as error:
            if isinstance(error, self._refusals):
                raise self._failure("write", path, error) from error
            # Whatever else it is, the request may have been on its way.
            raise SwapUnknownError(f"{self.place}{path}: {_text(error)}") from error

    def _make_parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        try:
            self._request("ensure_path_async", parent)
        except StorageError:
            raise
        except Exception as error:
            raise self._failure("create", parent, error) from error

    def _failure(self, verb: str, path: str, error: Exception) -> StorageError:
        if isinstance(error, StorageError):
            return error
        if isinstance(error, self._errors.NoAuthError):
            return StorageError(
                f"cannot {verb} {self.place}{path}: its access list forbids it. Give this client "
                "the rights, or choose another high-availability.zookeeper.path.root.",
                retryable=False,
            )
        return StorageError(f"cannot {verb} {self.place}{path}: {_text(error)}")


def _client_log() -> logging.Logger:
    """Returns kazoo's logger; it warns of each failed connection, where we say it once."""
    found = logging.getLogger("penstock.zookeeper")
    if found.level == logging.NOTSET:
        found.setLevel(logging.ERROR)
    return found


def _text(error: Exception) -> str:
    name = type(error).__name__
    words = {"ConnectionLoss": "the connection was lost", "KazooTimeoutError": "no answer in time"}
    return words.get(name, f"{name} {error}".strip())
