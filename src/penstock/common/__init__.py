"""PyFlink's `common`: what every program uses, whatever it computes."""

from __future__ import annotations

from penstock.common.completable_future import CompletableFuture as CompletableFuture
from penstock.common.config_options import (
    ConfigOption as ConfigOption,
    ConfigOptions as ConfigOptions,
)
from penstock.common.configuration import Configuration as Configuration
from penstock.common.execution_config import ExecutionConfig as ExecutionConfig
from penstock.common.input_dependency_constraint import (
    InputDependencyConstraint as InputDependencyConstraint,
)
from penstock.common.job_client import JobClient as JobClient
from penstock.common.job_execution_result import JobExecutionResult as JobExecutionResult
from penstock.common.job_id import JobID as JobID
from penstock.common.job_status import JobStatus as JobStatus
from penstock.common.restart_strategy import (
    RestartStrategies as RestartStrategies,
    RestartStrategyConfiguration as RestartStrategyConfiguration,
)
from penstock.common.serialization import (
    BulkWriterFactory as BulkWriterFactory,
    ByteArraySchema as ByteArraySchema,
    DeserializationSchema as DeserializationSchema,
    Encoder as Encoder,
    SerializationSchema as SerializationSchema,
    SimpleStringSchema as SimpleStringSchema,
)
from penstock.common.serializer import TypeSerializer as TypeSerializer
from penstock.common.time import Duration as Duration, Instant as Instant, Time as Time
from penstock.common.typeinfo import TypeInformation as TypeInformation, Types as Types
from penstock.common.types import Row as Row, RowKind as RowKind
from penstock.common.watermark_strategy import (
    TimestampAssigner as TimestampAssigner,
    WatermarkGenerator as WatermarkGenerator,
    WatermarkStrategy as WatermarkStrategy,
)
from penstock.core.refused_names import facade

__getattr__ = facade(__name__, also="AssignerWithPeriodicWatermarksWrapper")
