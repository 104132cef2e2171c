"""Stored files on S3 and what speaks its protocol, on Google's and on Azure's storage, by obstore.

Creating an object exactly once and replacing exactly the expected one are conditional requests
(`If-None-Match: *`, `If-Match: <etag>`), answered with 412 or 409 when they lose. The client
repeats requests whose reply was lost, so a 412 may mean that our own first request succeeded: each
put carries an id of its own as metadata of the object, and who loses reads it back first.

Objects are durable when the request returns, and appear as a whole; there are no directories to
make or to sync. A rename is a copy inside the server and a deletion.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.core.errors import ConfigurationError, install_extra
from penstock.core.versioned import Cell, SwapRejectedError, SwapUnknownError
from penstock.files.contract import (
    Capabilities,
    Content,
    Entry,
    RemoteStorage,
    behind_the_end,
    check_key,
)
from penstock.files.errors import (
    ObjectExistsError,
    UnknownOutcomeError,
)

_WRITER: Final = "penstockwriter"
"""Azure takes only letters and digits for names of metadata."""
_WHOLE_BYTES: Final = 32 * 1024 * 1024
"""Larger objects are written in parts. S3 completes those unconditionally; names of data files are
never used twice, so a look before it is enough there."""
_CONFLICTS: Final = 5

# Configuration as Flink names it -> obstore's name.
_OPTIONS: Final = {
    "s3": {
        "s3.access-key": "access_key_id",
        "s3.access.key": "access_key_id",
        "s3.secret-key": "secret_access_key",
        "s3.secret.key": "secret_access_key",
        "s3.session-token": "session_token",
        "s3.endpoint": "endpoint",
        "s3.endpoint.region": "region",
        "s3.region": "region",
    },
    "gs": {"gs.service-account-file": "service_account"},
    "az": {
        "azure.account-name": "account_name",
        "azure.account-key": "account_key",
        "azure.sas-token": "sas_key",
        "azure.endpoint": "endpoint",
    },
}
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or a role",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or the machine's account",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, or the machine's identity",
}


class ObjectStorage(RemoteStorage):
    """One bucket, or a part of one.

    Args:
        store: obstore's client.
        url: Where its root is.
        writer_id: Unique for this process.
    """

    capabilities = Capabilities(atomic_create=True, cas=True, directories=False)

    def __init__(self, store: Any, url: str, writer_id: str) -> None:
        import obstore
        from obstore import exceptions

        self.url = url
        self._store = store
        self._obstore = obstore
        self._errors = exceptions
        self.client_errors = (exceptions.BaseError, OSError)
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
        with self._request("write", key, unknown=True):
            # When the pieces are not what they must be, they raise and the parts are given up.
            self._obstore.put(self._store, key, content.pieces(what), attributes={_WRITER: token})

    def write(self, key: str, content: Content, *, deferred: bool = False) -> None:
        pieces = content.pieces(f"the source of {self.url_of(check_key(key))}")
        is_large = content.size_bytes > _WHOLE_BYTES
        with self._request("write", key, unknown=True):
            self._obstore.put(
                self._store, key, pieces if is_large else b"".join(pieces), use_multipart=is_large
            )

    def rename(self, key: str, new: str) -> None:
        with self._request("rename", key, unknown=True):
            self._obstore.copy(self._store, check_key(key), check_key(new))
        self.delete(key)

    def read_range(self, key: str, start: int, size_bytes: int) -> bytes:
        try:
            found = self._obstore.get_range(
                self._store, check_key(key), start=start, length=size_bytes
            )
        except self.client_errors as error:
            size = self.size(key)
            if size is not None and start + size_bytes > size:
                raise behind_the_end(self.url_of(key), start, size_bytes) from error
            raise self._failed("read", key, error) from error
        if len(found) < size_bytes:
            raise behind_the_end(self.url_of(key), start, size_bytes)
        return bytes(found)

    def pieces(self, key: str) -> Iterator[bytes]:
        with self._request("read", key):
            for piece in self._obstore.get(self._store, check_key(key)).stream():
                yield bytes(piece)

    def entry(self, key: str) -> Entry | None:
        with self._request("look at", key), contextlib.suppress(FileNotFoundError):
            return _entry(self._obstore.head(self._store, check_key(key)))
        return None

    def delete(self, key: str) -> None:
        with self._request("delete", key, unknown=True), contextlib.suppress(FileNotFoundError):
            self._obstore.delete(self._store, check_key(key))

    def list(self, prefix: str) -> Iterator[Entry]:
        with self._request("list", prefix):
            for batch in self._obstore.list(self._store, check_key(prefix) if prefix else None):
                yield from map(_entry, batch)

    def load_tagged(self, key: str) -> Cell | None:
        with self._request("read", key), contextlib.suppress(FileNotFoundError):
            found = self._obstore.get(self._store, check_key(key))
            # Google's storage knows a content by its generation, the others by the ETag.
            tag = f"{found.meta['e_tag'] or ''} {found.meta['version'] or ''}"
            return Cell(bytes(found.bytes()), tag)
        return None

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        mode: Any = "create"
        if tag is not None:
            e_tag, _, version = tag.partition(" ")
            mode = {"e_tag": e_tag} | ({"version": version} if version else {})
        try:
            self._obstore.put(self._store, check_key(key), data, mode=mode, use_multipart=False)
        except (self._errors.AlreadyExistsError, self._errors.PreconditionError) as error:
            raise SwapRejectedError(f"{self.url_of(key)} holds something else.") from error
        except self.client_errors as error:
            failure = self._failed("write", key, error, unknown=True)
            if isinstance(failure, UnknownOutcomeError):
                raise SwapUnknownError(str(failure)) from error
            raise failure from error

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
            except self.client_errors as error:
                raise self._failed("write", key, error, unknown=True) from error
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
        except self.client_errors as error:
            raise UnknownOutcomeError(
                f"{self.url_of(key)} exists, but whether it is ours could not be read: "
                f"{_first_line(error)}"
            ) from error
        return found.attributes.get(_WRITER, "")

    def _said(self, error: Any) -> tuple[str, str | None]:
        denied = (self._errors.PermissionDeniedError, self._errors.UnauthenticatedError)
        if not isinstance(error, denied):
            return _first_line(error), None
        credentials = _CREDENTIALS[_family(self.url)]
        return _first_line(error), f" Check credentials ({credentials}) and the bucket's policy."


def open_objects(url: str, options: Mapping[str, str]) -> ObjectStorage:
    """Opens a bucket or container.

    Credentials, region and endpoint come from the configuration (`s3.…`, `gs.…`, `azure.…`), else
    from the environment as the provider names it, else from the machine's role.

    Raises:
        ConfigurationError: The extra `s3` is not installed, or an option is refused.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        raise ConfigurationError(
            f"{url} needs the package obstore. Install it with: {install_extra('s3')}."
        ) from error
    family = _family(url)
    config: Any = {name: options[key] for key, name in _OPTIONS[family].items() if options.get(key)}
    if family == "s3":
        path_style = options.get("s3.path.style.access", options.get("s3.path-style-access", ""))
        if path_style:
            config["virtual_hosted_style_request"] = path_style.lower() != "true"
    client: Any = {"timeout": "60s", "connect_timeout": "5s"}
    endpoint = config.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint.startswith("http://"):
        client["allow_http"] = True
    retry: Any = {"max_retries": 3}
    try:
        store = from_url(url, config=config, client_options=client, retry_config=retry)
    except (BaseError, ValueError) as error:
        raise ConfigurationError(f"{url} cannot be opened: {_first_line(error)}") from error
    return ObjectStorage(store, url, secrets.token_hex(8))


def _family(url: str) -> str:
    scheme = url.partition("://")[0]
    return "az" if scheme in ("abfs", "abfss") else scheme


def _entry(found: Mapping[str, Any]) -> Entry:
    modified_ms = int(found["last_modified"].timestamp() * 1000)
    version = found["e_tag"] or found["version"] or str(modified_ms)
    return Entry(found["path"], found["size"], modified_ms, version)


def _first_line(error: Exception) -> str:
    """The message without the client's debug dump behind it."""
    return str(error).split("\n\nDebug source")[0].strip()[:500]
