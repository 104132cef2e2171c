"""PyFlink's `datastream.connectors.cassandra`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]

CassandraCommitter = unsupported_class("datastream.connectors.cassandra.CassandraCommitter")
CassandraFailureHandler = unsupported_class(
    "datastream.connectors.cassandra.CassandraFailureHandler"
)
CassandraSink = unsupported_class("datastream.connectors.cassandra.CassandraSink")
ClusterBuilder = unsupported_class("datastream.connectors.cassandra.ClusterBuilder")
ConsistencyLevel = unsupported_class("datastream.connectors.cassandra.ConsistencyLevel")
MapperOptions = unsupported_class("datastream.connectors.cassandra.MapperOptions")
