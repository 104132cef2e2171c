"""What PyFlink has and Penstock has not: one table, which the parity test reads.

A key is PyFlink's name without `pyflink.`; a star stands for everything below. The value says why,
and what to use instead. Nothing in it is ever ignored: it raises when it is called, which is while
the program is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from penstock.core.errors import UnsupportedError

__all__ = ["UNSUPPORTED", "reason", "unsupported_class", "unsupported_method"]

_KRYO: Final = "there are no Java serializers; records are pickled, or typed by a TypeInformation"
_JAVA: Final = "there are no Java objects behind Python's; the object itself is all there is"
_COMPACT: Final = "part files are not compacted; use a larger part size in RollingPolicy"
_CODECS: Final = (
    "state is written by Penstock's own codecs; declare types in state descriptors instead"
)
_INTERNAL: Final = "it is internal to PyFlink; operators are internal here too"
_LATENCY: Final = "latency is in the metrics of each epoch; see /metrics"
_NOT_KEPT: Final = (
    "results are not kept for later jobs; write them with a FileSink and read them again"
)
_BUILDER: Final = "call for_row_format() or for_bulk_format(), which return the builder"


def _spark(what: str, source_format: str) -> str:
    return (
        f"there is no {what} connector yet; read with env.from_spark(spark.readStream.format("
        f'"{source_format}")...) or write with a PythonSink'
    )


UNSUPPORTED: Final[dict[str, str]] = {
    "common.execution_config.ExecutionConfig.disable_closure_cleaner": (
        "functions are pickled by cloudpickle, always"
    ),
    "common.execution_config.ExecutionConfig.set_latency_tracking_interval": _LATENCY,
    "common.execution_config.ExecutionConfig.get_latency_tracking_interval": _LATENCY,
    "common.execution_config.ExecutionConfig.enable_force_kryo": _KRYO,
    "common.execution_config.ExecutionConfig.enable_force_avro": _KRYO,
    "common.execution_config.ExecutionConfig.get_default_kryo_serializer_classes": _KRYO,
    "common.execution_config.ExecutionConfig.get_registered_kryo_types": _KRYO,
    "common.execution_config.ExecutionConfig.get_registered_pojo_types": _KRYO,
    "common.io.InputFormat": "read with from_source() and one of penstock.datastream.connectors",
    "common.serializer.TypeSerializer.*": _CODECS,
    "common.serializer.VoidNamespaceSerializer": _CODECS,
    "common.typeinfo.LocalTimeTypeInfo": "use Types.SQL_DATE(), SQL_TIME() or SQL_TIMESTAMP()",
    "common.typeinfo.ExternalTypeInfo": "there is no Table API; declare the type itself",
    "common.typeinfo.*.EPOCH_ORDINAL": _INTERNAL,
    "common.typeinfo.*.get_java_type_info": _JAVA,
    "common.types.RowKind.to_j_row_kind": _JAVA,
    "common.utils.JavaObjectWrapper": _JAVA,
    "common.watermark_strategy.AssignerWithPeriodicWatermarksWrapper": (
        "write a WatermarkGenerator and use WatermarkStrategy.for_generator()"
    ),
    "common.serialization.RowDataBulkWriterFactory": (
        "use BulkWriterFactory.parquet() or BulkWriterFactory.csv()"
    ),
    "common.serialization.RowFieldExtractorSchema": "use map() to take the field before the sink",
    "datastream.checkpoint_storage.CustomCheckpointStorage": (
        "there are no Java classes; use FileSystemCheckpointStorage"
    ),
    "datastream.state_backend.CustomStateBackend": (
        "there are no Java classes; use HashMapStateBackend or EmbeddedRocksDBStateBackend"
    ),
    "datastream.state_backend.EmbeddedRocksDBStateBackend.set_options": (
        "there are no Java classes; RocksDB is tuned by Penstock"
    ),
    "datastream.connectors.base.StreamTransformer": "apply operators before sink_to() instead",
    "datastream.connectors.base.SupportsPreprocessing": "apply operators before sink_to() instead",
    "datastream.connectors.file_system.FileCompactStrategy": _COMPACT,
    "datastream.connectors.file_system.FileCompactor": _COMPACT,
    "datastream.connectors.file_system.FileSink.get_transformer": _COMPACT,
    "datastream.connectors.file_system.FileSink.BaseBuilder": _BUILDER,
    "datastream.connectors.file_system.StreamingFileSink.BaseBuilder": _BUILDER,
    "datastream.connectors.file_system.StreamingFileSink.DefaultBulkFormatBuilder": _BUILDER,
    "datastream.connectors.file_system.StreamingFileSink.DefaultRowFormatBuilder": _BUILDER,
    "datastream.connectors.file_system.OutputFileConfig.OutputFileConfigBuilder": (
        "call OutputFileConfig.builder()"
    ),
    "datastream.connectors.cassandra.*": _spark("Cassandra", "org.apache.spark.sql.cassandra"),
    "datastream.connectors.dynamic_kafka.*": _spark("dynamic Kafka", "kafka"),
    "datastream.connectors.elasticsearch.*": _spark("Elasticsearch", "es"),
    "datastream.connectors.hybrid_source.*": (
        "a job reads one source after the other by union(): both streams are read from the start"
    ),
    "datastream.connectors.jdbc.*": _spark("JDBC", "jdbc"),
    "datastream.connectors.kafka.*": _spark("Kafka", "kafka"),
    "datastream.connectors.kinesis.*": _spark("Kinesis", "aws-kinesis"),
    "datastream.connectors.pulsar.*": _spark("Pulsar", "pulsar"),
    "datastream.connectors.rabbitmq.*": (
        "there is no RabbitMQ connector; write a PythonSource or a PythonSink"
    ),
    "datastream.data_stream.CachedDataStream": _NOT_KEPT,
    "datastream.data_stream.DataStream.cache": _NOT_KEPT,
    "datastream.data_stream.KeyedStream.cache": _NOT_KEPT,
    "datastream.data_stream.KeyedStream.AccumulateType": _INTERNAL,
    "datastream.formats.csv.*": (
        "there is no Table API to make schemas with; read with StreamFormat.csv_format(...) and "
        "write with BulkWriterFactory.csv()"
    ),
    "datastream.formats.json.*": (
        "read with StreamFormat.json_line_format() and write with BulkWriterFactory.json(), or "
        "call json.loads and json.dumps in a map()"
    ),
    "datastream.formats.parquet.*": (
        "there is no Table API to make schemas with; read with BulkFormat.parquet_format() and "
        "write with BulkWriterFactory.parquet()"
    ),
    "datastream.formats.avro.*": "there is no Avro format; use Parquet, CSV or JSON lines",
    "datastream.formats.orc.*": "there is no ORC format; use Parquet",
    "datastream.functions.AsyncFunctionDescriptor": _INTERNAL,
    "datastream.functions.FunctionWrapper": _INTERNAL,
    "datastream.functions.ReduceFunctionWrapper": _INTERNAL,
    "datastream.functions.Internal*": _INTERNAL,
    "datastream.functions.JavaFunctionWrapper": _JAVA,
    "datastream.output_tag.OutputTag.get_java_output_tag": _JAVA,
    "datastream.slot_sharing_group.MemorySize.get_java_memory_size": _JAVA,
    "datastream.slot_sharing_group.SlotSharingGroup.get_java_slot_sharing_group": _JAVA,
    "datastream.state.StateTtlConfig.CleanupStrategies.CleanupStrategy": _INTERNAL,
    "datastream.state.StateTtlConfig.CleanupStrategies.EMPTY_STRATEGY": _INTERNAL,
    "datastream.state.StateTtlConfig.CleanupStrategies.EmptyCleanupStrategy": _INTERNAL,
    "datastream.stream_execution_environment.StreamExecutionEnvironment.add_classpaths": (
        "use add_jars(), or Spark's spark.driver.extraClassPath"
    ),
    "datastream.stream_execution_environment.StreamExecutionEnvironment.create_input": (
        "there are no input formats; use from_source() with a FileSource"
    ),
    "datastream.stream_execution_environment.StreamExecutionEnvironment.register_cached_file": (
        "use add_python_archive(), whose files are beside the worker's"
    ),
    "datastream.utils.create_hadoop_configuration": (
        "Hadoop is configured through Spark: penstock.spark.conf.spark.hadoop.*"
    ),
    "datastream.utils.create_java_properties": _JAVA,
    "datastream.utils.convert_to_python_obj": _JAVA,
    "datastream.utils.pickled_bytes_to_python_obj": _JAVA,
    "datastream.window.WindowOperationDescriptor": _INTERNAL,
    "datastream.window.long_to_int_with_bit_mixing": _INTERNAL,
    "datastream.window.mod_inverse": _INTERNAL,
    "datastream.window.Min": _INTERNAL,
    "datastream.window.*.register_next_fire_timestamp": _INTERNAL,
}


def reason(name: str) -> str | None:
    """Returns why PyFlink's `name` is not there and what to use instead; None if nothing is said.

    A class that is not there has no methods either: what is said of it covers them.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in UNSUPPORTED:
            return UNSUPPORTED[prefix]
    for pattern, text in UNSUPPORTED.items():
        if "*" in pattern and _matches(pattern, name):
            return text
    return None


def _matches(pattern: str, name: str) -> bool:
    before, _, after = pattern.partition("*")
    return name.startswith(before) and name.endswith(after)


def _error(name: str, called: str) -> UnsupportedError:
    return UnsupportedError(f"{called} is not supported: {reason(name)}.")


def unsupported_method(name: str) -> Callable[..., NoReturn]:
    """Makes a method that says why it is not there."""
    called = ".".join(name.split(".")[-2:])
    assert reason(name), name

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise _error(name, f"{called}()")

    method.__name__ = name.rsplit(".", 1)[-1]
    method.__doc__ = f"Not supported: {reason(name)}."
    return method


class _SaysWhy(type):
    """A class of which nothing can be used: every access says why."""

    _name: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise _error(cls._name, f"{cls.__name__}(...)")

    def __getattr__(cls, attribute: str) -> NoReturn:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        raise _error(cls._name, f"{cls.__name__}.{attribute}")


def unsupported_class(module: str, name: str) -> type:
    """Makes a class that can be imported and says why it is not there when it is used."""
    full = f"{module.removeprefix('penstock.')}.{name}"
    assert reason(full), full
    return _SaysWhy(name, (), {"_name": full, "__doc__": f"Not supported: {reason(full)}."})
