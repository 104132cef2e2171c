"""PyFlink's `datastream.connectors.pulsar`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "MessageDelayer",
    "PulsarSink",
    "PulsarSinkBuilder",
    "PulsarSource",
    "PulsarSourceBuilder",
    "RangeGenerator",
    "StartCursor",
    "StopCursor",
    "TopicRoutingMode",
]

MessageDelayer = unsupported_class("datastream.connectors.pulsar.MessageDelayer")
PulsarSink = unsupported_class("datastream.connectors.pulsar.PulsarSink")
PulsarSinkBuilder = unsupported_class("datastream.connectors.pulsar.PulsarSinkBuilder")
PulsarSource = unsupported_class("datastream.connectors.pulsar.PulsarSource")
PulsarSourceBuilder = unsupported_class("datastream.connectors.pulsar.PulsarSourceBuilder")
RangeGenerator = unsupported_class("datastream.connectors.pulsar.RangeGenerator")
StartCursor = unsupported_class("datastream.connectors.pulsar.StartCursor")
StopCursor = unsupported_class("datastream.connectors.pulsar.StopCursor")
TopicRoutingMode = unsupported_class("datastream.connectors.pulsar.TopicRoutingMode")
