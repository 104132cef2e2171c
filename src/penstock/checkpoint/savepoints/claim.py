"""Claims a snapshot for one job: put-if-absent of a marker, so two jobs cannot own it both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint.errors import CheckpointError, ObjectExistsError
from penstock.checkpoint.paths import CLAIM
from penstock.checkpoint.storage.content import Content

if TYPE_CHECKING:
    from penstock.checkpoint.storage.urls import Storages


def claim_snapshot(storages: Storages, directory: str, job_id: str) -> None:
    """Makes a job the owner of a snapshot; the same job may ask again.

    Raises:
        CheckpointError: Another job owns it.
    """
    storage = storages.at(directory)
    content = Content.of_bytes(job_id.encode())
    try:
        storage.put_if_absent(CLAIM, content)
    except ObjectExistsError:
        owner = storage.read(CLAIM)
        if owner != job_id.encode():
            raise CheckpointError(
                f"{directory} is claimed by job {owner.decode('utf-8', 'replace')[:64]!r} and can "
                f"not be claimed by {job_id} too: that job deletes it when it is done with it. "
                "Restore with claim mode NO_CLAIM."
            ) from None
