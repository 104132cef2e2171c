"""Where a request may have savepoints written or deleted: below the configured roots."""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from starlette.exceptions import HTTPException


def check_place(place: str | None, roots: Iterable[str]) -> None:
    """Checks a place that a client named.

    Raises:
        HTTPException: It cannot be a directory, or does not lie below any of the roots.
    """
    if place is None:
        return
    if "\0" in place or any(ord(character) < 32 for character in place):
        raise HTTPException(400, "The place of a savepoint holds characters that no path has.")
    roots = list(roots)
    if roots and not any(_is_below(place, root) for root in roots):
        raise HTTPException(
            403,
            "Savepoints lie below the directories of penstock.rest.savepoint-roots only; name one "
            "of those, or none for the job's own.",
        )


def _is_below(place: str, root: str) -> bool:
    place_scheme, place_path = _parts(place)
    root_scheme, root_path = _parts(root)
    if place_scheme != root_scheme:
        return False
    return place_path == root_path or place_path.startswith(root_path.rstrip("/") + "/")


def _parts(place: str) -> tuple[str, str]:
    """Returns scheme and host, and the path without links and `..`."""
    if "://" not in place:
        return "file://", os.path.realpath(place)
    parts = urlsplit(place)
    if parts.scheme == "file":
        return "file://", os.path.realpath(unquote(parts.path) or "/")
    # Twice unquoted, since nobody knows how often those behind us do.
    path = unquote(unquote(parts.path))
    return f"{parts.scheme}://{parts.netloc}", os.path.normpath(path or "/")
