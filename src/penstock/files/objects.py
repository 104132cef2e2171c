"""Checkpoint storage on S3 and what speaks its protocol, through obstore (extra `s3`).

Creating an object exactly once and replacing exactly the expected one are conditional requests
(`If-None-Match: *`, `If-Match: <etag>`), answered with 412 or 409 when they lose. The client
repeats requests whose reply was lost, so a 412 may mean that our own first request succeeded: each
put carries an id of its own as metadata of the object, and who loses reads it back first.

Objects are durable when the request returns; there are no directories to make or to sync.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.core.errors import ConfigurationError
from penstock.core.naming import install_extra
from penstock.core.versioned import Cell, SwapRejectedError, SwapUnknownError
from penstock.files.contract import Capabilities, Entry, Storage, check_key
from penstock.files.errors import (
    FilesError,
    ObjectExistsError,
    ObjectMissingError,
    StorageError,
    UnknownOutcomeError,
)

if TYPE_CHECKING:
    from obstore.store import S3Store

    from penstock.files.contract import Content

_WRITER: Final = "penstock-writer"
_WHOLE_BYTES: Final = 32 * 1024 * 1024
"""Larger objects are written in parts. S3 completes those unconditionally; names of data files are
never used twice, so a look before it is enough there."""
_CONFLICTS: Final = 5

# Configuration as Flink names it -> obstore's name.
_OPTIONS: Final = {
    "s3.access-key": "access_key_id",
    "s3.access.key": "access_key_id",
    "s3.secret-key": "secret_access_key",
    "s3.secret.key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.endpoint": "endpoint",
    "s3.endpoint.region": "region",
    "s3.region": "region",
}


class ObjectStorage(Storage):
    """One bucket, or a part of one.

    Args:
        store: obstore's client.
        url: Where its root is.
        writer_id: Unique for this process.
    """

    capabilities = Capabilities(atomic_create=True, cas=True)

    def __init__(self, store: S3Store, url: str, writer_id: str) -> None:
        import obstore
        from obstore import exceptions

        self.url = url
        self._store = store
        self._obstore = obstore
        self._errors = exceptions
        self._writer_id = writer_id
        self._numbers = itertools.count()

    def put_if_absent(self, key: str, content: Content, *, deferred: bool = False) -> None:
        what = f"the source of {self.url_of(check_key(key))}"
        # Unique for this call, the same for all requests that the client makes of it.
        token = f"{self._writer_id}-{next(self._numbers)}"
        if content.size_bytes <= _WHOLE_BYTES:
            self._create(key, content.read(what), token)
            return
        if self.exists(key):
            raise ObjectExistsError(f"{self.url_of(key)} exists already.")
        try:
            # When the pieces are not what they must be, they raise and the parts are given up.
            self._obstore.put(self._store, key, content.pieces(what), attributes={_WRITER: token})
        except (self._errors.BaseError, OSError) as error:
            self._raise("write", key, error, unknown=True)

    def pieces(self, key: str) -> Iterator[bytes]:
        try:
            for piece in self._obstore.get(self._store, check_key(key)).stream():
                yield bytes(piece)
        except (self._errors.BaseError, OSError) as error:
            self._raise("read", key, error)

    def size(self, key: str) -> int | None:
        try:
            return self._obstore.head(self._store, check_key(key))["size"]
        except FileNotFoundError:
            return None
        except (self._errors.BaseError, OSError) as error:
            self._raise("look at", key, error)

    def delete(self, key: str) -> None:
        try:
            self._obstore.delete(self._store, check_key(key))
        except FileNotFoundError:
            return
        except (self._errors.BaseError, OSError) as error:
            self._raise("delete", key, error, unknown=True)

    def list(self, prefix: str) -> Iterator[Entry]:
        try:
            for batch in self._obstore.list(self._store, check_key(prefix) if prefix else None):
                for found in batch:
                    modified_ms = int(found["last_modified"].timestamp() * 1000)
                    yield Entry(found["path"], found["size"], modified_ms)
        except (self._errors.BaseError, OSError) as error:
            self._raise("list", prefix, error)

    def make_directory(self, key: str, *, exclusive: bool = False) -> None:
        # Prefixes need no making; a savepoint's must only not be in use.
        if key:
            check_key(key)
        if exclusive and any(True for _ in self.list(key)):
            raise ObjectExistsError(f"{self.url_of(key)} exists already.")

    def load_tagged(self, key: str) -> Cell | None:
        try:
            found = self._obstore.get(self._store, check_key(key))
            return Cell(bytes(found.bytes()), found.meta["e_tag"] or "")
        except FileNotFoundError:
            return None
        except (self._errors.BaseError, OSError) as error:
            self._raise("read", key, error)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        mode: Any = "create" if tag is None else {"e_tag": tag}
        try:
            self._obstore.put(self._store, check_key(key), data, mode=mode, use_multipart=False)
        except (self._errors.AlreadyExistsError, self._errors.PreconditionError) as error:
            raise SwapRejectedError(f"{self.url_of(key)} holds something else.") from error
        except (self._errors.BaseError, OSError) as error:
            try:
                self._raise("write", key, error, unknown=True)
            except UnknownOutcomeError as unknown:
                raise SwapUnknownError(str(unknown)) from error

    # -- details ------------------------------------------------------------------------------

    def _create(self, key: str, data: bytes, token: str) -> None:
        for _ in range(_CONFLICTS):
            try:
                self._obstore.put(
                    self._store,
                    key,
                    data,
                    mode="create",
                    use_multipart=False,
                    attributes={_WRITER: token},
                )
                return
            except (self._errors.AlreadyExistsError, self._errors.PreconditionError) as error:
                writer = self._writer_of(key)
                if writer == token:
                    return
                if writer is not None:
                    raise ObjectExistsError(f"{self.url_of(key)} exists already.") from error
                # 409: two requests met and neither has won yet.
            except (self._errors.BaseError, OSError) as error:
                self._raise("write", key, error, unknown=True)
        raise UnknownOutcomeError(
            f"{self.url_of(key)} could not be created: {_CONFLICTS} requests met others, and no "
            "object appeared."
        )

    def _writer_of(self, key: str) -> str | None:
        """Returns which put wrote an object: "" when it does not say, None without an object."""
        try:
            found = self._obstore.get(self._store, key, options={"head": True})
        except FileNotFoundError:
            return None
        except (self._errors.BaseError, OSError) as error:
            raise UnknownOutcomeError(
                f"{self.url_of(key)} exists, but whether it is ours could not be read: "
                f"{_first_line(error)}"
            ) from error
        return found.attributes.get(_WRITER, "")

    def _raise(self, verb: str, key: str, error: Exception, *, unknown: bool = False) -> NoReturn:
        text = f"cannot {verb} {self.url_of(key)}: {_first_line(error)}"
        denied = (self._errors.PermissionDeniedError, self._errors.UnauthenticatedError)
        if isinstance(error, denied):
            raise StorageError(
                f"{text} Check credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or a role) "
                "and the bucket's policy.",
                retryable=False,
            ) from error
        if isinstance(error, FileNotFoundError):
            raise ObjectMissingError(text) from error
        if isinstance(error, FilesError):
            raise error
        if unknown:
            raise UnknownOutcomeError(text) from error
        raise StorageError(text) from error


def open_s3(url: str, options: Mapping[str, str]) -> ObjectStorage:
    """Opens a bucket.

    Credentials, region and endpoint come from the configuration (`s3.access-key`, `s3.secret-key`,
    `s3.endpoint`, `s3.region`, `s3.path.style.access`), else from the environment as AWS names it,
    else from the machine's role.

    Raises:
        ConfigurationError: The extra `s3` is not installed, or an option is refused.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError as error:
        raise ConfigurationError(
            f"{url} needs the package obstore. Install it with: {install_extra('s3')}."
        ) from error
    bucket = url.removeprefix("s3://")
    config: Any = {name: options[key] for key, name in _OPTIONS.items() if options.get(key)}
    path_style = options.get("s3.path.style.access", options.get("s3.path-style-access", ""))
    if path_style:
        config["virtual_hosted_style_request"] = path_style.lower() != "true"
    client: Any = {"timeout": "60s", "connect_timeout": "5s"}
    endpoint = config.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint.startswith("http://"):
        client["allow_http"] = True
    retry: Any = {"max_retries": 3}
    try:
        store = S3Store(bucket, config=config, client_options=client, retry_config=retry)
    except (BaseError, ValueError) as error:
        raise ConfigurationError(f"{url} cannot be opened: {_first_line(error)}") from error
    return ObjectStorage(store, url, secrets.token_hex(8))


def _first_line(error: Exception) -> str:
    """The message without the client's debug dump behind it."""
    return str(error).split("\n\nDebug source")[0].strip()[:500]
