"""PyFlink's `datastream.connectors.file_system`: files as a source and as a sink."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory as BulkWriterFactory
from penstock.connectors.file_sink.encoders import Encoder as Encoder
from penstock.connectors.file_sink.rolling import (
    BucketAssigner as BucketAssigner,
    DefaultRollingPolicy as DefaultRollingPolicy,
    OnCheckpointRollingPolicy as OnCheckpointRollingPolicy,
    OutputFileConfig as OutputFileConfig,
    RollingPolicy as RollingPolicy,
)
from penstock.connectors.file_sink.sink import (
    FileCompactor as FileCompactor,
    FileCompactStrategy as FileCompactStrategy,
    FileSink as FileSink,
    StreamingFileSink as StreamingFileSink,
)
from penstock.connectors.files.formats import BulkFormat as BulkFormat, StreamFormat as StreamFormat
from penstock.connectors.files.source import (
    FileEnumeratorProvider as FileEnumeratorProvider,
    FileSource as FileSource,
    FileSourceBuilder as FileSourceBuilder,
    FileSplitAssignerProvider as FileSplitAssignerProvider,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
