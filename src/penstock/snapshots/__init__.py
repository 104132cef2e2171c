"""Checkpoints and savepoints as data, without a job, Spark or a service.

`SavepointReader` reads them, `SavepointWriter` makes new ones: the nouns are those of Flink's State
Processor API.
"""

from __future__ import annotations

from penstock.snapshots.reader import OpenedSnapshot, SavepointReader
from penstock.snapshots.writer import SavepointWriter

__all__ = ["OpenedSnapshot", "SavepointReader", "SavepointWriter"]
