"""PyFlink's `datastream.connectors.rabbitmq`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource"]

RMQConnectionConfig = unsupported_class(__name__, "RMQConnectionConfig")
RMQSink = unsupported_class(__name__, "RMQSink")
RMQSource = unsupported_class(__name__, "RMQSource")
