"""PyFlink's `datastream.connectors.elasticsearch`: a sink, for OpenSearch too."""

from __future__ import annotations

from penstock.connectors.web.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchSink,
    ElasticsearchSinkBuilderBase,
    FlushBackoffType,
)
from penstock.core.refused_names import names_of

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "ElasticsearchSinkBuilderBase",
    "FlushBackoffType",
]

__getattr__ = names_of(__name__)
