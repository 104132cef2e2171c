"""PyFlink's names: what is not here and what to use instead, and where the others are.

A name is PyFlink's without `pyflink.`; a star stands for anything. `refused_names` makes of these
tables modules and classes that can be imported, and raise when they are used.
"""

from __future__ import annotations

from typing import Final

_KRYO: Final = "there are no Java serializers; records are pickled, or typed by a TypeInformation"
_JAVA: Final = "there are no Java objects behind Python's; the object itself is all there is"
_COMPACT: Final = "part files are not compacted; use a larger part size in RollingPolicy"
_CODECS: Final = (
    "state is written by Penstock's own codecs; declare types in state descriptors instead"
)
_INTERNAL: Final = "it is internal to PyFlink; operators are internal here too"
_LATENCY: Final = "latency is in the metrics of each epoch; see /metrics"
_NOT_KEPT: Final = (
    "results are not kept for later jobs; write the stream with sink_to(FileSink...) and read it "
    "again with a FileSource"
)
_BUILDER: Final = "call for_row_format() or for_bulk_format(), which return the builder"
_NO_TABLES: Final = (
    "there is no Table API; use Spark SQL for tables: env.from_spark(spark.sql(...)) makes a "
    "stream of a DataFrame, and stream.to_spark(...) writes one"
)
_NO_GATEWAY: Final = (
    "there is no JVM that holds the program; for Spark's, use pyspark's SparkSession"
)
_NO_DATASETS: Final = (
    "there is no DataSet API, and Flink has dropped it; use a bounded stream with "
    "env.set_runtime_mode(RuntimeExecutionMode.BATCH), or PySpark"
)
_AVRO_PARQUET: Final = (
    "Avro records are not kept in Parquet; read rows with BulkFormat.parquet_format() and write "
    "them with BulkWriterFactory.parquet()"
)
_FUNCTION: Final = "it is internal to PyFlink; pass the function itself"


def _own(what: str) -> str:
    return (
        f"there is no {what} connector; write a PythonSource or a PythonSink around its Python "
        "client, see the page Connectors of your own, or use Spark's with env.from_spark(...) and "
        "stream.to_spark(...)"
    )


REFUSED_MODULES: Final[dict[str, str]] = {
    "common.io": "read with from_source() and one of penstock.datastream.connectors",
    "common.utils": _JAVA,
    "dataset": _NO_DATASETS,
    "datastream.connectors.cassandra": _own("Cassandra"),
    "datastream.connectors.dynamic_kafka": (
        "clusters and topics are not found by a service; use a KafkaSource for each cluster, with "
        "set_topic_pattern() for topics that come and go, and union() their streams"
    ),
    "datastream.connectors.kinesis": _own("Kinesis"),
    "datastream.connectors.pulsar": _own("Pulsar"),
    "datastream.connectors.rabbitmq": _own("RabbitMQ"),
    "find_flink_home": _NO_GATEWAY,
    "fn_execution": _INTERNAL,
    "gen_protos": _INTERNAL,
    "java_gateway": _NO_GATEWAY,
    "ml": (
        "there is no ML pipeline API, and Flink has dropped it; train with PySpark or any library "
        "and use the model in a map()"
    ),
    "pyflink_callback_server": _NO_GATEWAY,
    "pyflink_gateway_server": _NO_GATEWAY,
    "serializers": _CODECS,
    "shell": "there is no shell; use Python's, or a notebook",
    "table": _NO_TABLES,
    "util": _NO_GATEWAY,
}

SUBMODULES: Final[dict[str, str]] = {
    "dataset": ("execution_environment"),
    "fn_execution": (
        "ResettableIO aggregate beam beam.beam_boot beam.beam_coder_impl_fast "
        "beam.beam_coder_impl_slow beam.beam_coders beam.beam_operations "
        "beam.beam_operations_fast beam.beam_operations_slow beam.beam_sdk_worker_main "
        "beam.beam_stream_fast beam.beam_stream_slow beam.beam_worker_pool_service "
        "coder_impl_fast coder_impl_slow coders datastream datastream.embedded "
        "datastream.embedded.operations datastream.embedded.process_function "
        "datastream.embedded.runtime_context datastream.embedded.side_output_context "
        "datastream.embedded.state_impl datastream.embedded.timerservice_impl "
        "datastream.keyed_process_function datastream.merging_window_set datastream.operations "
        "datastream.process datastream.process.async_function "
        "datastream.process.async_function.operation datastream.process.async_function.queue "
        "datastream.process.input_handler datastream.process.operations "
        "datastream.process.process_function datastream.process.runtime_context "
        "datastream.process.timerservice_impl datastream.runtime_context "
        "datastream.timerservice datastream.window datastream.window.merging_window_set "
        "datastream.window.window_operator datastream.window_operator embedded "
        "embedded.converters embedded.java_utils embedded.operation_utils embedded.operations "
        "embedded.state_impl flink_fn_execution_pb2 formats formats.avro internal_state metrics "
        "metrics.embedded metrics.embedded.counter_impl metrics.embedded.distribution_impl "
        "metrics.embedded.meter_impl metrics.embedded.metric_impl metrics.process "
        "metrics.process.counter_impl metrics.process.distribution_impl "
        "metrics.process.meter_impl metrics.process.metric_impl operation_utils operations "
        "pickle profiler state_impl stream_fast stream_slow table table.aggregate_fast "
        "table.aggregate_slow table.async_function table.async_function.operations "
        "table.operations table.state_data_view table.window_aggregate_fast "
        "table.window_aggregate_slow table.window_assigner table.window_context "
        "table.window_process_function table.window_trigger timerservice_impl utils "
        "utils.input_handler utils.operation_utils utils.output_factory"
    ),
    "ml": (
        "api api.base api.ml_environment api.ml_environment_factory api.param api.param.base "
        "lib lib.param lib.param.colname"
    ),
    "table": (
        "catalog changelog_mode compiled_plan data_view descriptors environment_settings "
        "explain_detail expression expressions functions model_descriptor module plan_reference "
        "resolved_expression result_kind schema serializers sinks sources sql_dialect "
        "statement_set table table_config table_descriptor table_environment table_pipeline "
        "table_result table_schema types udf utils window"
    ),
    "util": ("api_stability_decorators exceptions java_utils utils"),
}

REFUSED: Final[dict[str, str]] = {
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
    "common.serializer.TypeSerializer.*": _CODECS,
    "common.execution_config.ExecutionConfig.add_default_kryo_serializer": _KRYO,
    "common.execution_config.ExecutionConfig.get_registered_types_with_kryo_serializer_classes": (
        _KRYO
    ),
    "common.execution_config.ExecutionConfig.register_kryo_type": _KRYO,
    "common.execution_config.ExecutionConfig.register_pojo_type": _KRYO,
    "common.execution_config.ExecutionConfig.register_type_with_kryo_serializer": _KRYO,
    "common.serialization.Encoder.get_java_encoder": _JAVA,
    "common.serializer.VoidNamespaceSerializer": _CODECS,
    "common.serializer.void": _CODECS,
    "common.typeinfo.LocalTimeTypeInfo": "use Types.SQL_DATE(), SQL_TIME() or SQL_TIMESTAMP()",
    "common.typeinfo.WrapperTypeInfo": _JAVA,
    "common.typeinfo.*_ARRAY_TYPE_INFO": "use Types.BASIC_ARRAY(...) or Types.PRIMITIVE_ARRAY(...)",
    "common.typeinfo.ExternalTypeInfo": "there is no Table API; declare the type itself",
    "common.typeinfo.*.EPOCH_ORDINAL": _INTERNAL,
    "common.typeinfo.*.get_java_type_info": _JAVA,
    "common.types.RowKind.to_j_row_kind": _JAVA,
    "common.watermark_strategy.AssignerWithPeriodicWatermarksWrapper": (
        "write a WatermarkGenerator and use WatermarkStrategy.for_generator()"
    ),
    "common.serialization.RowDataBulkWriterFactory": (
        "use BulkWriterFactory.parquet() or BulkWriterFactory.csv()"
    ),
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
    "datastream.connectors.elasticsearch.*.get_http_host_class": _JAVA,
    "datastream.connectors.file_system.FileCompactStrategy": _COMPACT,
    "datastream.connectors.file_system.FileCompactor": _COMPACT,
    "datastream.connectors.file_system.FileSink.get_transformer": _COMPACT,
    "datastream.connectors.file_system.FileSink.BaseBuilder": _BUILDER,
    "datastream.connectors.kafka.KafkaSink.get_transformer": (
        "apply operators before sink_to() instead"
    ),
    "datastream.connectors.file_system.StreamingFileSink.BaseBuilder": _BUILDER,
    "datastream.connectors.file_system.StreamingFileSink.DefaultBulkFormatBuilder": _BUILDER,
    "datastream.connectors.file_system.StreamingFileSink.DefaultRowFormatBuilder": _BUILDER,
    "datastream.connectors.file_system.OutputFileConfig.OutputFileConfigBuilder": (
        "call OutputFileConfig.builder()"
    ),
    "datastream.data_stream.CachedDataStream": _NOT_KEPT,
    "datastream.data_stream.WINDOW_STATE_NAME": _INTERNAL,
    "datastream.data_stream.DataStream.cache": _NOT_KEPT,
    "datastream.data_stream.KeyedStream.cache": _NOT_KEPT,
    "datastream.data_stream.KeyedStream.AccumulateType": _INTERNAL,
    "datastream.functions.AsyncFunctionDescriptor": _INTERNAL,
    "datastream.functions.FilterFunctionWrapper": _FUNCTION,
    "datastream.functions.FlatMapFunctionWrapper": _FUNCTION,
    "datastream.functions.FunctionWrapper": _FUNCTION,
    "datastream.functions.KeySelectorFunctionWrapper": _FUNCTION,
    "datastream.functions.MapFunctionWrapper": _FUNCTION,
    "datastream.functions.PartitionerFunctionWrapper": _FUNCTION,
    "datastream.functions.ReduceFunctionWrapper": _FUNCTION,
    "datastream.functions.Internal*": _INTERNAL,
    "datastream.functions.JavaFunctionWrapper": _JAVA,
    "datastream.formats.parquet.AvroParquetReaders": _AVRO_PARQUET,
    "datastream.formats.parquet.AvroParquetWriters": _AVRO_PARQUET,
    "datastream.output_tag.OutputTag.get_java_output_tag": _JAVA,
    "datastream.slot_sharing_group.MemorySize.get_java_memory_size": _JAVA,
    "datastream.slot_sharing_group.SlotSharingGroup.get_java_slot_sharing_group": _JAVA,
    "datastream.state.StateTtlConfig.CleanupStrategies.CleanupStrategy": _INTERNAL,
    "datastream.state.StateTtlConfig.CleanupStrategies.EMPTY_STRATEGY": _INTERNAL,
    "datastream.state.StateTtlConfig.CleanupStrategies.EmptyCleanupStrategy": _INTERNAL,
    "datastream.stream_execution_environment.StreamExecutionEnvironment.register_cached_file": (
        "use add_python_archive(), whose files are beside the worker's"
    ),
    "datastream.stream_execution_environment.StreamExecutionEnvironment."
    "add_default_kryo_serializer": _KRYO,
    "datastream.stream_execution_environment.StreamExecutionEnvironment.register_type": _KRYO,
    "datastream.stream_execution_environment.StreamExecutionEnvironment."
    "register_type_with_kryo_serializer": _KRYO,
    "datastream.timerservice.InternalTimer": _INTERNAL,
    "datastream.timerservice.InternalTimerService": _INTERNAL,
    "datastream.utils.pickled_bytes_to_python_converter": _JAVA,
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
    "metrics.metricbase.GenericMetricGroup": "ask runtime_context.get_metrics_group() for a group",
    "metrics.metricbase.MetricGroupType": _INTERNAL,
}

HOMES: Final[dict[str, str]] = {
    "common.completable_future": "CompletableFuture",
    "common.config_options": "ConfigOption ConfigOptions",
    "common.configuration": "Configuration",
    "common.constants": "MAX_LONG_VALUE MIN_LONG_VALUE",
    "common.execution_config": "ExecutionConfig ExecutionMode",
    "common.input_dependency_constraint": "InputDependencyConstraint",
    "common.io": "InputFormat",
    "common.job_execution_result": "JobExecutionResult",
    "common.job_id": "JobID",
    "common.restart_strategy": "RestartStrategies RestartStrategyConfiguration",
    "common.serialization": (
        "BulkWriterFactory DeserializationSchema Encoder RowDataBulkWriterFactory "
        "SerializationSchema SimpleStringEncoder"
    ),
    "common.time": "Duration Time",
    "common.typeinfo": (
        "BasicArrayTypeInfo ExternalTypeInfo ListTypeInfo MapTypeInfo ObjectArrayTypeInfo "
        "PickledBytesTypeInfo PrimitiveArrayTypeInfo RowTypeInfo TupleTypeInfo TypeInformation "
        "Types WrapperTypeInfo typeinfo"
    ),
    "common.types": "Row RowKind",
    "common.utils": "JavaObjectWrapper",
    "common.watermark_strategy": (
        "AssignerWithPeriodicWatermarksWrapper TimestampAssigner WatermarkStrategy"
    ),
    "core.types": "DataTypes",
    "core.type_variables": "IN IN1 IN2 K KEY N OUT T V W W2",
    "dataset": "ExecutionEnvironment",
    "datastream.async_retry_strategies": "async_retry_strategies",
    "datastream.checkpoint_storage": "CheckpointStorage CustomCheckpointStorage",
    "datastream.checkpointing_mode": "CheckpointingMode",
    "datastream.connectors.base": (
        "DeliveryGuarantee Sink Source StreamTransformer SupportsPreprocessing"
    ),
    "datastream.connectors.dynamic_kafka": (
        "DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService "
        "KafkaRecordDeserializationSchema KafkaStreamSetSubscriber KafkaStreamSubscriber "
        "SingleClusterTopicMetadataService StreamPatternSubscriber"
    ),
    "datastream.connectors.file_system": "BulkFormat DefaultRollingPolicy StreamFormat",
    "datastream.connectors.jdbc": "JdbcConnectionOptions JdbcExecutionOptions JdbcSink",
    "datastream.connectors.kafka": (
        "FlinkKafkaConsumer FlinkKafkaConsumerBase FlinkKafkaProducer FlinkKafkaProducerBase "
        "KafkaOffsetsInitializer KafkaSource Semantic"
    ),
    "datastream.connectors.pulsar": "PulsarSource PulsarSourceBuilder StartCursor StopCursor",
    "datastream.connectors.rabbitmq": "RMQConnectionConfig RMQSink RMQSource",
    "datastream.data_stream": "CloseableIterator",
    "datastream.execution_mode": "TimeCharacteristic",
    "datastream.externalized_checkpoint_retention": "ExternalizedCheckpointCleanup",
    "datastream.formats.avro": (
        "AvroRowDeserializationSchema AvroRowSerializationSchema AvroSchema"
    ),
    "datastream.formats.csv": "CsvRowDeserializationSchema CsvRowSerializationSchema",
    "datastream.formats.json": "JsonRowDeserializationSchema JsonRowSerializationSchema",
    "datastream.functions": (
        "AggregateFunction AllWindowFunction AsyncFunction AsyncFunctionDescriptor "
        "AsyncRetryPredicate AsyncRetryStrategy BroadcastProcessFunction CoFlatMapFunction "
        "CoMapFunction CoProcessFunction FilterFunction FilterFunctionWrapper FlatMapFunction "
        "FlatMapFunctionWrapper Function FunctionWrapper InternalIterableAllWindowFunction "
        "InternalIterableProcessAllWindowFunction InternalIterableProcessWindowFunction "
        "InternalIterableWindowFunction InternalSingleValueAllWindowFunction "
        "InternalSingleValueProcessAllWindowFunction InternalSingleValueProcessWindowFunction "
        "InternalSingleValueWindowFunction InternalWindowFunction JavaFunctionWrapper KeySelector "
        "KeySelectorFunctionWrapper KeyedBroadcastProcessFunction KeyedCoProcessFunction "
        "KeyedProcessFunction MapFunction MapFunctionWrapper NullByteKeySelector Partitioner "
        "PartitionerFunctionWrapper PassThroughAllWindowFunction PassThroughWindowFunction "
        "ProcessAllWindowFunction ProcessFunction ProcessWindowFunction ReduceFunction "
        "ReduceFunctionWrapper RuntimeContext SinkFunction SourceFunction WindowFunction"
    ),
    "datastream.output_tag": "OutputTag",
    "datastream.slot_sharing_group": "SlotSharingGroup",
    "datastream.state": (
        "AggregatingState AggregatingStateDescriptor BroadcastState ListState ListStateDescriptor "
        "MapState MapStateDescriptor ReadOnlyBroadcastState ReducingState ReducingStateDescriptor "
        "State StateDescriptor ValueState ValueStateDescriptor"
    ),
    "datastream.state_backend": (
        "CustomStateBackend FsStateBackend MemoryStateBackend RocksDBStateBackend StateBackend"
    ),
    "datastream.stream_execution_environment": "StreamExecutionEnvironment",
    "datastream.time_domain": "TimeDomain",
    "datastream.timerservice": "TimerService",
    "datastream.utils": (
        "ResultTypeQueryable convert_to_python_obj create_hadoop_configuration "
        "create_java_properties"
    ),
    "datastream.window": (
        "CountSlidingWindowAssigner CountTumblingWindowAssigner CountWindowSerializer "
        "GlobalWindowSerializer MergingWindowAssigner TimeWindowSerializer Trigger WindowAssigner "
        "WindowOperationDescriptor"
    ),
    "java_gateway": "get_gateway",
    "metrics.metricbase": "MetricGroup",
    "serializers": "PickleSerializer",
    "table": (
        "AsyncScalarFunction ChangelogMode CompiledPlan DataView EnvironmentSettings "
        "ExplainDetail Expression FormatDescriptor FunctionContext GroupWindowedTable GroupedTable "
        "ListView MapView Module ModuleEntry OverWindowedTable PlanReference ResultKind "
        "ScalarFunction Schema SqlDialect StatementSet StreamTableEnvironment Table "
        "TableAggregateFunction TableConfig TableDescriptor TableEnvironment TableFunction "
        "TablePipeline TableResult TableSchema UserDefinedType WindowGroupedTable"
    ),
    "table.expressions": (
        "array call call_sql coalesce col concat current_date current_timestamp descriptor "
        "if_then_else lit null_of range_ row row_interval source_watermark to_timestamp_ltz "
        "with_columns without_columns"
    ),
    "util.api_stability_decorators": "Public",
    "util.exceptions": "convert_py4j_exception",
    "util.java_utils": (
        "add_jars_to_context_class_loader from_j_duration from_j_flink_time get_field "
        "get_field_value get_j_env_configuration invoke_method is_instance_of is_local_deployment "
        "load_java_class to_j_duration to_j_flink_time to_jarray"
    ),
}
"""Names that programs import from more modules than the one that they belong to.

PyFlink's modules offer what they import themselves, and its 1.x had some names in other modules. A
name that is its module's last part is the module.
"""

MOVED_MODULES: Final = frozenset(
    {"common.execution_mode", "common.state", "util.utils", "datastream.time_characteristic"}
)
"""Modules of PyFlink 1.x whose names are in others today."""

OF_TABLES: Final = frozenset({"AggregateFunction", "CloseableIterator"})
"""Names that mean something else below `table`."""
