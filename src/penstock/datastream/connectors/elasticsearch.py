"""PyFlink's `datastream.connectors.elasticsearch`: a sink, for OpenSearch too."""

from __future__ import annotations

from penstock.connectors.web.elasticsearch import (
    Elasticsearch6SinkBuilder as Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder as Elasticsearch7SinkBuilder,
    ElasticsearchEmitter as ElasticsearchEmitter,
    ElasticsearchSink as ElasticsearchSink,
    ElasticsearchSinkBuilderBase as ElasticsearchSinkBuilderBase,
    FlushBackoffType as FlushBackoffType,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
