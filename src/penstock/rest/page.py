"""The files of the web page: a fixed list, made when the service starts.

A request's path is looked up in it and never joined to anything, so what is not on the list does
not exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

DIRECTORY: Final = Path(__file__).with_name("static")
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}


class Page:
    """The page's files by the path under which they are served."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        files = {
            f"/{file.relative_to(directory).as_posix()}": file
            for file in sorted(directory.rglob("*"))
            if file.is_file() and not file.is_symlink() and file.suffix in _KINDS
        }
        if "/index.html" in files:
            files["/"] = files["/index.html"]
        self._files = files

    def holds(self, path: str) -> bool:
        """Says whether a path is one of the page's."""
        return path in self._files

    def answer(self, path: str) -> Response:
        """Returns a file.

        Raises:
            HTTPException: There is none of this name.
        """
        file = self._files.get(path)
        if file is None:
            raise HTTPException(404, "There is nothing at this path.")
        # The page and the service are of one version: a file is never older than what it asks.
        return FileResponse(
            file, media_type=_KINDS[file.suffix], headers={"cache-control": "no-cache"}
        )
