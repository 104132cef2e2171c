"""PyFlink's `common.watermark_strategy`: event time."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.operators.watermark_strategy import (
    TimestampAssigner as TimestampAssigner,
    WatermarkGenerator as WatermarkGenerator,
    WatermarkOutput as WatermarkOutput,
    WatermarkStrategy as WatermarkStrategy,
)

__getattr__ = facade(__name__)
