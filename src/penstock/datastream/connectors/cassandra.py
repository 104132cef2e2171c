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

CassandraCommitter = unsupported_class(__name__, "CassandraCommitter")
CassandraFailureHandler = unsupported_class(__name__, "CassandraFailureHandler")
CassandraSink = unsupported_class(__name__, "CassandraSink")
ClusterBuilder = unsupported_class(__name__, "ClusterBuilder")
ConsistencyLevel = unsupported_class(__name__, "ConsistencyLevel")
MapperOptions = unsupported_class(__name__, "MapperOptions")
