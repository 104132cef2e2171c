"""Sources and sinks written in Python, generated data, and Spark's writers."""

from __future__ import annotations

from penstock.connectors.custom import PythonSource, Timestamped, Watermark
from penstock.connectors.demo_events import DemoEventSource
from penstock.connectors.generator import DataGeneratorSource
from penstock.connectors.spark import SparkSink
from penstock.connectors.user_sink import PythonSink, SinkContext, SinkFunction

__all__ = [
    "DataGeneratorSource",
    "DemoEventSource",
    "PythonSink",
    "PythonSource",
    "SinkContext",
    "SinkFunction",
    "SparkSink",
    "Timestamped",
    "Watermark",
]
