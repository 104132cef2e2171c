"""PyFlink's `datastream.data_stream`: every kind of stream."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.datastream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from penstock.datastream.collecting import CloseableIterator
from penstock.datastream.connected_streams import ConnectedStreams
from penstock.datastream.interval_joined import IntervalJoinedStreams
from penstock.datastream.joined_streams import CoGroupedStreams, JoinedStreams
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.plain_stream import DataStream
from penstock.datastream.stream_sink import DataStreamSink
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
