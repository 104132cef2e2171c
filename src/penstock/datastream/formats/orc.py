"""PyFlink's `datastream.formats.orc`: files of ORC."""

from __future__ import annotations

from penstock.connectors.file_sink.bulk_outputs import OrcBulkWriters
from penstock.connectors.files.block_formats import OrcFormat
from penstock.core.refused_names import names_of

__all__ = ["OrcBulkWriters", "OrcFormat"]

__getattr__ = names_of(__name__)
