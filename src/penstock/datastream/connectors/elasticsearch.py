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

Elasticsearch6SinkBuilder = unsupported_class(
    "datastream.connectors.elasticsearch.Elasticsearch6SinkBuilder"
)
Elasticsearch7SinkBuilder = unsupported_class(
    "datastream.connectors.elasticsearch.Elasticsearch7SinkBuilder"
)
ElasticsearchEmitter = unsupported_class("datastream.connectors.elasticsearch.ElasticsearchEmitter")
ElasticsearchSink = unsupported_class("datastream.connectors.elasticsearch.ElasticsearchSink")
ElasticsearchSinkBuilderBase = unsupported_class(
    "datastream.connectors.elasticsearch.ElasticsearchSinkBuilderBase"
)
FlushBackoffType = unsupported_class("datastream.connectors.elasticsearch.FlushBackoffType")
