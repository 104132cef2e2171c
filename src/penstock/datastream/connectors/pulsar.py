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

MessageDelayer = unsupported_class(__name__, "MessageDelayer")
PulsarSink = unsupported_class(__name__, "PulsarSink")
PulsarSinkBuilder = unsupported_class(__name__, "PulsarSinkBuilder")
PulsarSource = unsupported_class(__name__, "PulsarSource")
PulsarSourceBuilder = unsupported_class(__name__, "PulsarSourceBuilder")
RangeGenerator = unsupported_class(__name__, "RangeGenerator")
StartCursor = unsupported_class(__name__, "StartCursor")
StopCursor = unsupported_class(__name__, "StopCursor")
TopicRoutingMode = unsupported_class(__name__, "TopicRoutingMode")
