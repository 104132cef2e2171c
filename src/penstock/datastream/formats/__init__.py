"""PyFlink's `datastream.formats`: rows as bytes, for Kafka and other streams of messages."""

from __future__ import annotations

from penstock.core.refused_names import names_of

__all__: list[str] = []

__getattr__ = names_of(__name__)
