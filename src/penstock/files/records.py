"""Versioned records on checkpoint storage: one swapped object, or numbered files.

Where a storage has compare-and-set, a record is one object. Where it can only create a file exactly
once, version *v* is the file `<19 digits of v>`, put if absent, and the highest number counts; the
last few are kept. Where it has neither, numbered files still work for a single writer, but nothing
keeps two apart: high availability must use another store.
"""

from __future__ import annotations

import contextlib
from typing import Final

from penstock.core.versioned import Cell, SwapRejectedError, SwapUnknownError, VersionedRecord
from penstock.files.contract import Content, Storage
from penstock.files.errors import (
    FilesError,
    ObjectExistsError,
    ObjectMissingError,
    UnknownOutcomeError,
)

KEPT_VERSIONS: Final = 8
_DIGITS: Final = 19
_TRIES: Final = 10


class SwappedRecord:
    """A record in one object of a storage with compare-and-set."""

    def __init__(self, storage: Storage, key: str) -> None:
        self._storage = storage
        self._key = f"{key}/current"

    @property
    def place(self) -> str:
        return self._storage.url_of(self._key)

    def load(self) -> Cell | None:
        return self._storage.load_tagged(self._key)

    def swap(self, expected: Cell | None, data: bytes) -> None:
        self._storage.swap(self._key, data, None if expected is None else expected.token)


class NumberedRecord:
    """A record in files of rising numbers."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory

    @property
    def place(self) -> str:
        return self._storage.url_of(self._directory)

    def load(self) -> Cell | None:
        for _ in range(_TRIES):
            numbers = self._numbers()
            if not numbers:
                return None
            with contextlib.suppress(ObjectMissingError):
                return Cell(self._storage.read(self._key(max(numbers))), max(numbers))
            # It was superseded and removed between the two requests: look again.
        raise UnknownOutcomeError(f"{self.place} changes faster than it can be read.")

    def swap(self, expected: Cell | None, data: bytes) -> None:
        number = 1 if expected is None else expected.token + 1
        if expected is None:
            self._storage.make_directory(self._directory)
        try:
            self._storage.put_if_absent(self._key(number), Content.of_bytes(data))
        except ObjectExistsError as error:
            raise SwapRejectedError(str(error)) from error
        except UnknownOutcomeError as error:
            raise SwapUnknownError(str(error)) from error
        # A writer that slept through KEPT_VERSIONS changes could now create a number below the
        # current one. It would not count, and reading back shows the writer that it does not.
        with contextlib.suppress(FilesError):
            for old in self._numbers():
                if old <= number - KEPT_VERSIONS:
                    self._storage.delete(self._key(old))

    def _numbers(self) -> list[int]:
        names = (entry.key.rpartition("/")[2] for entry in self._storage.list(self._directory))
        return [int(name) for name in names if len(name) == _DIGITS and name.isdigit()]

    def _key(self, number: int) -> str:
        return f"{self._directory}/{number:0{_DIGITS}d}"


def open_record(storage: Storage, key: str) -> VersionedRecord:
    """Returns the record at a key, kept in the safest way that the storage has."""
    if storage.capabilities.cas:
        return VersionedRecord(SwappedRecord(storage, key))
    return VersionedRecord(NumberedRecord(storage, key))
