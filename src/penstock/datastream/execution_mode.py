"""PyFlink's `datastream.execution_mode`."""

from __future__ import annotations

from enum import Enum

from penstock.core.refused_names import names_of

__getattr__ = names_of(__name__)


class RuntimeExecutionMode(Enum):
    """Whether results come as they change, or only at the end of bounded input."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


class TimeCharacteristic(Enum):
    """What `set_stream_time_characteristic` of Flink 1 took; windows say their time themselves."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
