"""Files of a worker whose local directory no other worker sees: written through to a shared one.

The shared directory holds the copy that counts; the local one is a cache. A task finds every file
that its handles name, on whichever machine it runs: what is not here is fetched and checked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.errors import StateError
from penstock.core.file_area import DEFAULT_INLINE_THRESHOLD_BYTES, FileArea, make_private

if TYPE_CHECKING:
    from penstock.core.handles import FileHandle


class MirroredFileArea(FileArea):
    """A `FileArea` whose files are also in a shared directory.

    Args:
        directory: Local to this worker.
        shared: Seen by every worker; names in it are never used twice either, since they hold the
            id of the attempt that writes them.
        inline_threshold_bytes: As for `FileArea`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        shared: str | os.PathLike[str],
        inline_threshold_bytes: int = DEFAULT_INLINE_THRESHOLD_BYTES,
    ) -> None:
        super().__init__(directory, inline_threshold_bytes)
        self.shared = Path(shared)
        make_private(self.shared)

    def write(self, name: str, data: bytes, known: FileHandle | None = None) -> FileHandle:
        handle = super().write(name, data, known)
        return handle if handle is known else self._published(handle)

    def adopt(
        self,
        path: str | os.PathLike[str],
        name: str,
        digest: str | None = None,
        *,
        may_be_inline: bool = True,
    ) -> FileHandle:
        return self._published(super().adopt(path, name, digest, may_be_inline=may_be_inline))

    def path(self, handle: FileHandle) -> Path:
        """Returns where the file lies here, fetching it if need be."""
        local = super().path(handle)
        if handle.inline is None and not local.exists():
            self._fetch(handle, local)
        return local

    def _published(self, handle: FileHandle) -> FileHandle:
        if handle.inline is None:
            _copy(self.directory / handle.name, self.shared / handle.name)
        return handle

    def _fetch(self, handle: FileHandle, local: Path) -> None:
        source = self.shared / handle.name
        if not source.exists():
            raise StateError(
                f"state file {handle.name!r} ({handle.size_bytes:,} bytes) is neither in "
                f"{self.directory} nor in {self.shared}. Restore from another checkpoint, or check "
                "that every worker sees the shared directory."
            )
        _copy(source, local)


def _copy(source: Path, target: Path) -> None:
    """Copies under a temporary name first: a reader never sees half a file."""
    descriptor, name = tempfile.mkstemp(prefix=".copy-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as copy, source.open("rb") as original:
            shutil.copyfileobj(original, copy, 1 << 20)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
