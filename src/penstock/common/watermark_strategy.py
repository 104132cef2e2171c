"""PyFlink's `common.watermark_strategy`: event time."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class
from penstock.operators.watermarks import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)

__all__ = [
    "AssignerWithPeriodicWatermarksWrapper",
    "TimestampAssigner",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

AssignerWithPeriodicWatermarksWrapper = unsupported_class(
    __name__, "AssignerWithPeriodicWatermarksWrapper"
)
