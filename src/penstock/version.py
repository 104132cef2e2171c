"""PyFlink's `version`: the version of this package, said here alone."""

from __future__ import annotations

__version__ = "0.1.0"
