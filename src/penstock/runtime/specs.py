"""What source and sink nodes carry."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connectors.sink import Sink
from penstock.connectors.source import Source
from penstock.operators.watermarks import WatermarkStrategy


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source and how event time is made of its records."""

    source: Source
    strategy: WatermarkStrategy | None = None


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink."""

    sink: Sink
