"""The registry of shared files: which checkpoint used a file last, and so when it may go.

A pure value. There are no counts to raise and lower, so a crash cannot make them drift: it is a
fold over the retained manifests, and rebuilding it from them gives the same one.

    register n            last_used = max(last_used, n) for every shared file that n names
    unregister below L    entries with last_used < L leave; their files may be deleted, unless a
                          snapshot that we do not own brought them
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.checkpoint.errors import CheckpointError

if TYPE_CHECKING:
    from penstock.checkpoint.manifest import Manifest, StoredHandle


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One entry, under the absolute place of its file."""

    handle: StoredHandle  # As some checkpoint names it; the others agree about its content.
    last_used: int  # Highest registered checkpoint that names it.


@dataclass(frozen=True, slots=True)
class SharedRegistry:
    """All shared files of a job's retained checkpoints."""

    files: dict[str, SharedFile] = field(default_factory=dict)  # Entries by path.
    # Highest restored id that the job does not own; files created at or below it are another
    # job's and never deleted.
    unclaimed_up_to: int = 0

    @classmethod
    def rebuilt(cls, manifests: Iterable[Manifest], unclaimed_up_to: int = 0) -> SharedRegistry:
        registry = cls(unclaimed_up_to=unclaimed_up_to)
        for manifest in manifests:
            registry = registry.registered(manifest)
        return registry

    def registered(self, manifest: Manifest) -> SharedRegistry:
        """Returns the registry after a checkpoint completed.

        Raises:
            CheckpointError: It names a known file with another content: a name was reused.
        """
        files = dict(self.files)
        for path, handle in manifest.shared_files.items():
            known = files.get(path)
            if known is None:
                files[path] = SharedFile(handle, manifest.checkpoint_id)
            elif (known.handle.size_bytes, known.handle.sha256) != (
                handle.size_bytes,
                handle.sha256,
            ):
                raise CheckpointError(
                    f"checkpoint {manifest.checkpoint_id} names the shared file {path} with "
                    f"{handle.size_bytes:,} bytes and SHA-256 {handle.sha256}, but checkpoint "
                    f"{known.last_used} knows it with {known.handle.size_bytes:,} bytes and "
                    f"SHA-256 {known.handle.sha256}. Run `penstock verify` on both."
                )
            elif known.last_used < manifest.checkpoint_id:
                files[path] = replace(known, last_used=manifest.checkpoint_id)
        return replace(self, files=files)

    def unregistered_below(
        self, lowest_retained: int, *, in_use: Collection[str] = ()
    ) -> tuple[SharedRegistry, tuple[str, ...]]:
        """Returns the registry without files that are not needed any more, and places to delete.

        Args:
            lowest_retained: Lowest id that is still retained.
            in_use: Paths that checkpoints under way are going to name; they stay.
        """
        left: dict[str, SharedFile] = {}
        deleted: list[str] = []
        for path, file in self.files.items():
            if file.last_used >= lowest_retained or path in in_use:
                left[path] = file
            elif file.handle.created_by > self.unclaimed_up_to:
                deleted.append(path)
        return replace(self, files=left), tuple(deleted)
