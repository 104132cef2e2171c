"""Sources and sinks written in Python, generated data, and Spark's writers."""

from __future__ import annotations

from penstock.connectors.custom import (
    PythonSource as PythonSource,
    Timestamped as Timestamped,
    Watermark as Watermark,
)
from penstock.connectors.demo_events import DemoEventSource as DemoEventSource
from penstock.connectors.generator import DataGeneratorSource as DataGeneratorSource
from penstock.connectors.spark import SparkSink as SparkSink
from penstock.connectors.user_sink import (
    PythonSink as PythonSink,
    SinkContext as SinkContext,
    SinkFunction as SinkFunction,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
