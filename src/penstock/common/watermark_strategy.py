"""PyFlink's `common.watermark_strategy`: event time."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.operators.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)

__all__ = [
    "TimestampAssigner",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

__getattr__ = names_of(__name__)
