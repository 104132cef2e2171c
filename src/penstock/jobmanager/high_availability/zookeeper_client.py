"""One connection to ZooKeeper: every request has a deadline and one of three kinds of failure.

kazoo queues requests while it has no connection, and answers them whenever it has one again; with
a lost quorum that may be never. Here a request without a connection fails at once, one without an
answer in time fails for the caller, and a *change* that may be on its way is of unknown outcome.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.errors import StorageError
from penstock.core.errors import ConfigurationError, EnvironmentError_
from penstock.core.naming import install_extra
from penstock.core.versioned import SwapRejectedError, SwapUnknownError

if TYPE_CHECKING:
    from penstock.jobmanager.high_availability.settings import ZooKeeperSettings

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
        """Its servers, for errors."""
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
            time.sleep(pause)
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
        """Ends the session."""
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
