"""PyFlink's `datastream.data_stream`: every kind of stream."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.datastream.connected_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    CoGroupedStreams,
    ConnectedStreams,
    IntervalJoinedStreams,
    JoinedStreams,
)
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.plain_stream import DataStream
from penstock.datastream.sinks import CloseableIterator
from penstock.datastream.stream_view import DataStreamSink
from penstock.datastream.windowed_stream import AllWindowedStream, WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "IntervalJoinedStreams",
    "JoinedStreams",
    "KeyedStream",
    "WindowedStream",
]

__getattr__ = names_of(__name__)
