"""PyFlink's `datastream.connectors.file_system`: files as a source and as a sink."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory
from penstock.connectors.file_sink.encoders import Encoder
from penstock.connectors.file_sink.rolling import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.file_sink.sink import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    StreamingFileSink,
)
from penstock.connectors.files.formats import BulkFormat, StreamFormat
from penstock.connectors.files.source import (
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
)
from penstock.core.refused_names import names_of

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "BulkWriterFactory",
    "DefaultRollingPolicy",
    "Encoder",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

__getattr__ = names_of(__name__)
