"""PyFlink's `datastream.execution_mode`."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """Whether results come as they change, or only at the end of bounded input."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
