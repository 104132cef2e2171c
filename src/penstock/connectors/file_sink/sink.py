"""The file sink: records become part files in buckets, each record exactly once.

    FileSink.for_row_format(path, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner())
        .with_rolling_policy(RollingPolicy.default_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        .build()

Files are hidden (`.part-...`) until their part is closed by the rolling policy, at a commit: after
each checkpoint, or after each epoch without checkpointing. The base path is a directory, or a URL
of any storage that checkpoints may be on. See `parts`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, Self

from penstock.connectors.file_sink.encoders import Encoder, OutputFormat
from penstock.connectors.file_sink.parts import FileCommitter, FileSinkSettings, FileSinkWriter
from penstock.connectors.file_sink.rolling import (
    BucketAssigner,
    DateTimeBucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.files.inputs import normalize
from penstock.connectors.sink import Committer, Sink, SinkWriter, WriterContext
from penstock.core.errors import ProgramError, UnsupportedError
from penstock.files.urls import shared_storages, storage_settings


class _Builder:
    def __init__(self, base_path: str, output_format: OutputFormat, policy: RollingPolicy) -> None:
        path = normalize(base_path)
        shared_storages(()).at(path)  # A scheme without its package fails here, in the program.
        self._settings = FileSinkSettings(
            path, output_format, DateTimeBucketAssigner(), policy, OutputFileConfig()
        )

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Accepts any interval: the policy is asked at each commit, without which nothing shows."""
        if interval < 1:
            raise ProgramError(f"the bucket check interval is {interval} ms; it must be above 0.")
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Chooses the buckets; without it they are named after the hour."""
        if not isinstance(bucket_assigner, BucketAssigner):
            raise ProgramError(
                f"{bucket_assigner!r} is no BucketAssigner; use for example "
                "BucketAssigner.base_path_bucket_assigner(), or a subclass."
            )
        self._settings = replace(self._settings, assigner=bucket_assigner)
        return self

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Chooses prefix and suffix of part files."""
        self._settings = replace(self._settings, names=output_file_config)
        return self

    def enable_compact(self, strategy: Any, compactor: Any) -> NoReturn:
        """Is not supported and not needed: see the error."""
        raise UnsupportedError(
            "FileSink does not compact: it joins the output of many epochs into one part file "
            "anyway. For larger files raise part_size and rollover_interval of "
            "RollingPolicy.default_rolling_policy(...)."
        )

    def disable_compact(self) -> Self:
        """Is the case already."""
        return self

    def build(self) -> FileSink:
        """Returns the sink."""
        return FileSink(self._settings)


class RowBuilder(_Builder):
    """Builds a sink of a format in which records follow each other."""

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
        """Chooses when parts are closed."""
        if not isinstance(rolling_policy, RollingPolicy):
            raise ProgramError(
                f"{rolling_policy!r} is no RollingPolicy; use for example "
                "RollingPolicy.default_rolling_policy()."
            )
        self._settings = replace(self._settings, policy=rolling_policy)
        return self


class BulkBuilder(_Builder):
    """Builds a sink of a format whose files are written as a whole."""

    def with_rolling_policy(self, rolling_policy: OnCheckpointRollingPolicy) -> Self:
        """Accepts the policy that bulk formats have anyway."""
        if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
            raise ProgramError(
                "a bulk format rolls at every checkpoint; use "
                "RollingPolicy.on_checkpoint_rolling_policy()."
            )
        return self


class FileSink(Sink):
    """Writes files exactly once; made by `for_row_format` or `for_bulk_format`."""

    _default_name = "File Sink"
    RowFormatBuilder = RowBuilder
    BulkFormatBuilder = BulkBuilder

    def __init__(self, settings: FileSinkSettings) -> None:
        self._settings = settings

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> RowBuilder:
        """Begins a sink of text, or of whatever the encoder makes."""
        if not isinstance(encoder, Encoder):
            raise ProgramError(
                f"{encoder!r} is no Encoder; use for example Encoder.simple_string_encoder()."
            )
        return RowBuilder(base_path, encoder, DefaultRollingPolicy())

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: OutputFormat) -> BulkBuilder:
        """Begins a sink of Parquet, CSV or JSON: `BulkWriterFactory.parquet()` and so on."""
        if not isinstance(writer_factory, OutputFormat):
            raise ProgramError(
                f"{writer_factory!r} is no bulk format; use BulkWriterFactory.parquet(), "
                ".csv(columns) or .json()."
            )
        return BulkBuilder(base_path, writer_factory, OnCheckpointRollingPolicy())

    def with_settings(self, settings: Mapping[str, str]) -> Sink:
        return FileSink(replace(self._settings, storage=storage_settings(settings)))

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return FileSinkWriter(self._settings, context)

    def create_committer(self) -> Committer:
        return FileCommitter(self._settings)

    def with_text(self, text: Callable[[Any], str]) -> Sink:
        output_format = self._settings.output_format
        if not isinstance(output_format, Encoder):
            return self
        return FileSink(replace(self._settings, output_format=output_format.with_text(text)))


class StreamingFileSink(FileSink):
    """The older name of `FileSink`."""

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> RowBuilder:
        """Begins a `FileSink`, with a warning."""
        _warn()
        return FileSink.for_row_format(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: OutputFormat) -> BulkBuilder:
        """Begins a `FileSink`, with a warning."""
        _warn()
        return FileSink.for_bulk_format(base_path, writer_factory)


def _warn() -> None:
    message = "StreamingFileSink is deprecated in Flink since 1.15; use FileSink and sink_to."
    warnings.warn(message, DeprecationWarning, stacklevel=3)


class FileCompactStrategy:
    """Exists for imports of ported programs; its use is an error that names the alternative."""

    @staticmethod
    def builder() -> NoReturn:
        """Raises."""
        raise UnsupportedError(
            "FileSink does not compact; raise part_size and rollover_interval of "
            "RollingPolicy.default_rolling_policy(...) for larger files."
        )


class FileCompactor:
    """Exists for imports of ported programs; its use is an error that names the alternative."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> NoReturn:
        """Raises."""
        FileCompactStrategy.builder()

    @staticmethod
    def identical_file_compactor() -> NoReturn:
        """Raises."""
        FileCompactStrategy.builder()
