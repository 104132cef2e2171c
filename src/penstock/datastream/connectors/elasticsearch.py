"""PyFlink's `datastream.connectors.elasticsearch`: its names, which say what to use instead."""

from __future__ import annotations

from penstock.common.unsupported import unsupported_class

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "ElasticsearchSinkBuilderBase",
    "FlushBackoffType",
]

Elasticsearch6SinkBuilder = unsupported_class(__name__, "Elasticsearch6SinkBuilder")
Elasticsearch7SinkBuilder = unsupported_class(__name__, "Elasticsearch7SinkBuilder")
ElasticsearchEmitter = unsupported_class(__name__, "ElasticsearchEmitter")
ElasticsearchSink = unsupported_class(__name__, "ElasticsearchSink")
ElasticsearchSinkBuilderBase = unsupported_class(__name__, "ElasticsearchSinkBuilderBase")
FlushBackoffType = unsupported_class(__name__, "FlushBackoffType")
