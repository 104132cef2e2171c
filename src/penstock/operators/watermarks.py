"""Event time in one place: strategies, generators, and what runs them."""

from __future__ import annotations

from penstock.operators.source_watermarks import SourceWatermarks
from penstock.operators.timestamps import TimestampsAndWatermarksSpec
from penstock.operators.watermark_generators import (
    AscendingTimestampsWatermarks,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
)
from penstock.operators.watermark_strategy import WatermarkAlignment, WatermarkStrategy
from penstock.operators.watermark_tracker import WatermarkTracker
from penstock.operators.watermark_valve import WatermarkMerger, WatermarkValve

__all__ = [
    "AscendingTimestampsWatermarks",
    "BoundedOutOfOrdernessWatermarks",
    "NoWatermarksGenerator",
    "SourceWatermarks",
    "TimestampAssigner",
    "TimestampsAndWatermarksSpec",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkMerger",
    "WatermarkOutput",
    "WatermarkStrategy",
    "WatermarkTracker",
    "WatermarkValve",
]
