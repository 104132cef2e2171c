"""PyFlink's `datastream.formats.orc`: files of ORC."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import OrcBulkWriters as OrcBulkWriters
from penstock.connectors.files.block_formats import OrcFormat as OrcFormat
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
