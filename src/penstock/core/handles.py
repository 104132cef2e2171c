"""Pointers to immutable bytes.

A handle names bytes by place, length and SHA-256; a reader checks both. Bytes up to the
inline threshold travel in the handle itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileHandle:
    """One immutable file, or the bytes themselves when they are small."""

    name: str  # File name, never used again (it holds an attempt-unique id, never only content).
    size_bytes: int
    sha256: str  # Hex digest of the content.
    inline: bytes | None = None  # The content, if it travels in the handle; then no file exists.


@dataclass(frozen=True, slots=True)
class KeyedStateVersion:
    """One immutable version of an operator's keyed state in one subtask.

    A version is a base and the changes since: `base` are the files of a full image (for `rocksdb`
    its SST files, for `hashmap` one snapshot file), `deltas` one file per commit, oldest first.
    """

    version_id: str  # Never used again; names the attempt that wrote it.
    backend: str  # `hashmap` or `rocksdb`.
    base_id: str  # Version whose full image `base` is, or "" when there is no base.
    base: tuple[FileHandle, ...]  # Files of the full image.
    deltas: tuple[FileHandle, ...]  # Change files in the order in which they apply.
    # The version reached by each delta, in step with `deltas`; the last one is `version_id`. A
    # worker that holds an earlier one of them replays only the rest.
    delta_ids: tuple[str, ...]
    first_key_group: int  # First key group the version covers.
    last_key_group: int  # Last key group the version covers, inclusive.

    @property
    def files(self) -> tuple[FileHandle, ...]:
        """Every handle of the version."""
        return self.base + self.deltas
