"""PyFlink's `datastream.stream_execution_environment`: where a program begins and is executed."""

from __future__ import annotations

import atexit
import logging
import sys
import weakref
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.common.execution_config import ExecutionConfig
from penstock.common.job_client import JobClient
from penstock.connectors.generator import CollectionSource
from penstock.connectors.source import Source
from penstock.core.config_file import load_configuration
from penstock.core.errors import EnvironmentError_, InputError, ProgramError
from penstock.core.refused_names import names_of, refuses_methods
from penstock.core.types import TypeInformation, checked_type
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.data_stream import DataStream
from penstock.datastream.environment_settings import EnvironmentSettings
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.notebook import graph_svg, settings_html
from penstock.datastream.program import Program, in_batch_mode, is_bounded
from penstock.graph.nodes import Input, Node, NodeKind, StreamGraph
from penstock.operators.adapters import check_methods
from penstock.operators.watermark_strategy import WatermarkStrategy
from penstock.runtime.lowering import execution_plan

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.core.job import JobExecutionResult
    from penstock.job.local_job import LocalJob

__getattr__ = names_of(__name__)

_log = logging.getLogger("penstock.environment")
_DEFAULT_JOB_NAME: Final = "Penstock Streaming Job"
_PREFIXES: Final = {NodeKind.SOURCE: "Source: ", NodeKind.SINK: "Sink: "}


@refuses_methods
class StreamExecutionEnvironment(EnvironmentSettings):
    """Holds a program and its configuration.

    Streams begin with `from_collection`, `from_source` and the like; `execute` runs what was built.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(load_configuration())
        self._program = Program()
        self._listeners: tuple[Any, ...] = ()
        if not _environments:
            atexit.register(_tell_what_never_ran)
        _environments.add(self)
        if configuration is not None:
            self.configure(configuration)

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """Makes an environment.

        Args:
            configuration: Settings on top of those of `config.yaml` and the command line.

        Example:
            >>> StreamExecutionEnvironment.get_execution_environment().get_parallelism()
            1
        """
        return StreamExecutionEnvironment(configuration)

    def get_config(self) -> ExecutionConfig:
        """Returns settings of the job as a whole.

        Example:
            >>> env.get_config().set_parallelism(3).get_parallelism()
            3
        """
        return ExecutionConfig(self._configuration)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Returns the settings of checkpoints.

        Example:
            >>> env.get_checkpoint_config().set_checkpoint_interval(5_000).get_checkpoint_interval()
            5000
        """
        return CheckpointConfig(self._configuration)

    # ---- sources ----

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """Makes a stream of records that the program holds.

        Args:
            collection: The records.
            type_info: Their type; rows are made of tuples if it says so.

        Example:
            >>> env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()])).take()
            [('a', 1)]
        """
        if isinstance(collection, str | bytes | dict) or not hasattr(collection, "__iter__"):
            raise ProgramError(
                f"from_collection() takes a list of records, but got {type(collection).__name__} "
                f"{collection!r:.80}. Put it in a list."
            )
        records = list(collection)
        declared = None if type_info is None else checked_type(type_info, "from_collection()")
        if declared is not None:
            records = list(map(declared.adopted, records))
            for position, record in enumerate(records):
                wrong = declared.mismatch(record)
                if wrong is not None:
                    raise ProgramError(f"from_collection(): record {position}: {wrong}.")
            records = declared.convert_all(records)
        return self._add_source(
            CollectionSource(records), None, "Collection Source", declared, is_parallel=False
        )

    def from_sequence(self, from_: int, to: int) -> DataStream:
        """Makes a stream of the numbers from `from_` to `to`, both included.

        Example:
            >>> env.from_sequence(1, 3).take()
            [1, 2, 3]
        """
        from penstock.connectors.generator import NumberSequenceSource
        from penstock.core.types import Types

        source = NumberSequenceSource(from_, to)
        return self._add_source(source, None, "Sequence Source", Types.LONG())

    generate_sequence = from_sequence

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """Makes a stream of the lines of a file, or of all files of a directory.

        Example:
            >>> _ = (folder / "words.txt").write_text("to be")
            >>> env.read_text_file(str(folder / "words.txt")).take()
            ['to be']
        """
        from penstock.connectors.files.formats import StreamFormat
        from penstock.connectors.files.source import FileSource
        from penstock.core.types import Types

        lines = StreamFormat.text_line_format(charset_name)
        source = FileSource.for_record_stream_format(lines, str(file_path)).build()
        return self._add_source(source, None, f"Text Files {file_path}", Types.STRING())

    def socket_text_stream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retries: int = 0
    ) -> DataStream:
        """Makes a stream of the lines that a server sends, in one subtask; for trying things out.

        A socket cannot be read again: lines sent to a worker that died are lost.

        Args:
            hostname: The server.
            port: Its port.
            delimiter: What ends a line.
            max_retries: How often, half a second apart, a server is tried again that does not
                answer or has ended the connection; 0 ends the stream then, and -1 has no end.

        Example:
            >>> words = env.socket_text_stream("localhost", 9999).flat_map(str.split)
        """
        from penstock.connectors.socket_text import SocketTextSource
        from penstock.core.types import Types

        source = SocketTextSource(hostname, port, delimiter, max_retries)
        return self._add_source(source, None, "Socket Stream", Types.STRING(), is_parallel=False)

    def create_input(self, input_format: Any, type_info: Any = None) -> DataStream:
        """Makes a stream of the records of files that an input format reads.

        Args:
            input_format: An `AvroInputFormat`; for other files use `from_source()`.
            type_info: Type of the records; None for that of the format.

        Example:
            >>> text = '{"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}'
            >>> schema = AvroSchema.parse_string(text)
            >>> sink = FileSink.for_bulk_format(
            ...     str(folder / "n"), AvroBulkWriters.for_generic_record(schema)
            ... ).build()
            >>> _ = env.from_collection([{"n": 1}]).sink_to(sink)
            >>> _ = env.execute()
            >>> env.create_input(AvroInputFormat(str(folder / "n"), schema)).take()
            [{'n': 1}]
        """
        if not hasattr(input_format, "source"):
            raise ProgramError(
                f"create_input({input_format!r:.80}) takes an AvroInputFormat. Read other files "
                "with from_source(FileSource..., ...)."
            )
        declared = input_format.get_produced_type() if type_info is None else type_info
        return self._add_source(input_format.source(), None, "Custom File Source", declared)

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Makes a stream of a source.

        Args:
            source: The source.
            watermark_strategy: How event time is made of its records.
            source_name: Name of the operator.
            type_info: Type of the records.

        Example:
            >>> no_time = WatermarkStrategy.no_watermarks()
            >>> env.from_source(NumberSequenceSource(1, 2), no_time, "n").take()
            [1, 2]
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise ProgramError(
                f"from_source() takes a WatermarkStrategy, but got {watermark_strategy!r:.80}. "
                "Without event time it is WatermarkStrategy.no_watermarks()."
            )
        source = checked_source(source, "from_source()")
        declared = source.produced_type()
        if type_info is not None:
            declared = checked_type(type_info, "from_source()")
        return self._add_source(source, watermark_strategy, source_name, declared)

    def add_source(
        self,
        source_func: Any,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Makes a stream of a source without event time; the older form of `from_source`.

        Example:
            >>> class Squares(PythonSource):
            ...     bounded = True
            ...
            ...     def splits(self):
            ...         return ["all"]
            ...
            ...     def end_offset(self, split):
            ...         return 4
            ...
            ...     def read(self, split, start, end):
            ...         return [number * number for number in range(start, end)]
            >>> env.add_source(Squares()).take()
            [0, 1, 4, 9]
        """
        source = checked_source(source_func, "add_source()")
        declared = source.produced_type()
        if type_info is not None:
            declared = checked_type(type_info, "add_source()")
        return self._add_source(source, None, source_name, declared)

    def from_spark(
        self,
        data_frame: Any,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark DataFrame",
    ) -> DataStream:
        """Makes a stream of the rows of a Spark DataFrame, streaming or not; records are Rows.

        Checkpoints and savepoints hold the offsets of a streaming one, by the uid of the source:
        a job that starts from them continues exactly there. Its query must keep no state in Spark,
        as aggregations and deduplications do, and its input must be there to be read again.

        Args:
            data_frame: The DataFrame; nothing of it is computed before `execute()`.
            watermark_strategy: How event time is made of the rows; None for none.
            source_name: Name of the operator.

        Example:
            >>> env.from_spark(spark.range(3)).map(lambda row: row.id * 10).take()
            [0, 10, 20]
        """
        from penstock.connectors.spark import SparkSource

        return self._add_source(SparkSource(data_frame), watermark_strategy, source_name, None)

    def _add_source(
        self,
        source: Any,
        strategy: WatermarkStrategy | None,
        name: str,
        type_info: TypeInformation | None,
        *,
        is_parallel: bool = True,
    ) -> DataStream:
        from penstock.runtime.lowering import SourceSpec

        node_id = self._program.append(
            NodeKind.SOURCE,
            name,
            SourceSpec(source, strategy),
            parallelism=None if is_parallel else 1,
            is_parallel=is_parallel,
        )
        return DataStream(self, (Input(node_id),), type_info)

    # ---- execution ----

    def execute(self, job_name: str | None = None, *, ui: bool = False) -> JobExecutionResult:
        """Runs the program to its end.

        Args:
            job_name: Name of the job.
            ui: Serves the web page while the job runs.

        Example:
            >>> _ = env.from_collection(["done"]).print()
            >>> result = env.execute("a job")
            done
        """
        from penstock.job.progress import shown_progress

        progress = str(self._configuration.get_enum("penstock.progress"))
        job = self._start(job_name, ui=ui)
        try:
            with shown_progress(job, progress):
                return job.wait()
        except (InputError, EnvironmentError_) as error:
            # The text has the cause and the way out; frames of threads inside would hide it.
            _log.debug("Job %s failed here:", job.job_id, exc_info=True)
            raise error.with_traceback(None) from None
        finally:
            job.listeners.close()

    def execute_async(self, job_name: str | None = None, *, ui: bool = False) -> JobClient:
        """Starts the program and returns at once.

        Example:
            >>> _ = env.from_collection(["done"]).print()
            >>> client = env.execute_async("a job")
            >>> _ = client.get_job_execution_result().result()
            done
        """
        from penstock.job.start import tell_how_it_ends

        job = self._start(job_name, ui=ui)
        tell_how_it_ends(job)
        return JobClient(job)

    def add_listener(self, listener: Any) -> None:
        """Adds a listener for jobs that are executed later.

        Args:
            listener: A `StreamingQueryListener` of Spark's, for which an epoch is a batch and
                which finds our figures under `observedMetrics["penstock"]`; or any object with
                `on_checkpoint_completed(record)`, `on_checkpoint_failed(record)` or
                `on_restart(event)`. If a listener raises, it is removed.

        Example:
            >>> class Checkpoints:
            ...     def on_checkpoint_completed(self, record):
            ...         print("a checkpoint has completed")
            >>> env.add_listener(Checkpoints())
        """
        from penstock.job.listeners import checked_listener

        self._listeners = (*self._listeners, checked_listener(listener))

    def remove_listener(self, listener: Any) -> None:
        """Removes a listener; jobs executed later do not call it.

        Example:
            >>> class Failures:
            ...     def on_restart(self, event):
            ...         print("restarted")
            >>> failures = Failures()
            >>> env.add_listener(failures)
            >>> env.remove_listener(failures)
        """
        self._listeners = tuple(each for each in self._listeners if each is not listener)

    def get_execution_plan(self) -> str:
        """Returns the plan of what was built so far, as JSON.

        Example:
            >>> _ = env.from_collection([1]).map(str).print()
            >>> plan = json.loads(env.get_execution_plan())
            >>> [node["type"] for node in plan["nodes"]]
            ['Source: Collection Source', 'Map', 'Sink: Print to Std. Out']
        """
        return execution_plan(self._stream_graph())

    def check_restore(self, path: str | None = None) -> dict[str, Any]:
        """Checks whether the program could start from a snapshot; starts nothing.

        Functions are opened once, here, to learn which state they have.

        Args:
            path: A checkpoint or savepoint; by default `execution.state-recovery.path`.

        Returns:
            `fits`, `problems` (everything that is wrong), `warnings`, and `operators` with the
            verdict on each of their states; plain data.

        Example:
            >>> def build():
            ...     numbers = env.from_sequence(1, 1_000_000_000).uid("numbers")
            ...     totals = numbers.key_by(lambda number: number % 2).sum().uid("totals")
            ...     totals.add_sink(lambda total: None).uid("nowhere")
            >>> build()
            >>> job = env.execute_async()
            >>> savepoint = job.stop_with_savepoint(False, str(folder)).result()
            >>> build()
            >>> env.check_restore(savepoint)["fits"]
            True
        """
        from penstock.job.restore import check_restore

        return check_restore(self._stream_graph(), self._configuration, path)

    def _start(self, job_name: str | None, *, ui: bool) -> LocalJob:
        from penstock.job.listeners import JobListeners
        from penstock.launch import local

        graph = self._stream_graph(job_name)
        if not graph.nodes:
            raise ProgramError(
                "the program has no operators. Build streams before execute(), for example "
                "env.from_collection([1, 2, 3]).print(); what an earlier execute() ran is not run "
                "again unless something new follows it."
            )
        remarks = (*self._configuration.warnings(), *self._program.remarks, *_loose_ends(graph))
        for remark in remarks:
            _log.warning("%s", remark)
        if ui:
            self._configuration.set_boolean("penstock.ui.enabled", value=True)
        job = local.execute_async(graph, self._configuration, JobListeners(self._listeners))
        # Not before: a program that cannot be compiled can be repaired and executed again.
        self._program.executed()
        return job

    def _stream_graph(self, job_name: str | None = None) -> StreamGraph:
        configuration = self._configuration
        nodes = {node_id: _with_prefix(node) for node_id, node in self._program.pending().items()}
        mode = RuntimeExecutionMode[str(configuration.get_enum("execution.runtime-mode"))]
        if mode is RuntimeExecutionMode.BATCH or (
            mode is RuntimeExecutionMode.AUTOMATIC and is_bounded(nodes)
        ):
            nodes = in_batch_mode(nodes)
        max_parallelism = self.get_max_parallelism()
        return StreamGraph(
            job_name=job_name or configuration.get_string("pipeline.name") or _DEFAULT_JOB_NAME,
            nodes=nodes,
            parallelism=self.get_parallelism(),
            max_parallelism=None if max_parallelism == -1 else max_parallelism,
            chaining_enabled=self.is_chaining_enabled(),
            auto_generate_uids=bool(configuration.get_boolean("pipeline.auto-generate-uids")),
        )

    def close(self) -> None:
        """Forgets the program. Nothing else is held.

        Example:
            >>> _ = env.from_collection([1]).print()
            >>> env.close()
            >>> json.loads(env.get_execution_plan())["nodes"]
            []
        """
        self._program.clear()

    def __repr__(self) -> str:
        names = [node.name for node in self._program.pending().values()]
        return f"StreamExecutionEnvironment(parallelism={self.get_parallelism()}, streams={names})"

    def _repr_html_(self) -> str:
        nodes = self._program.pending()
        drawing = graph_svg(nodes, nodes) if nodes else ""
        return settings_html("StreamExecutionEnvironment", self._configuration) + drawing


_environments: weakref.WeakSet[StreamExecutionEnvironment] = weakref.WeakSet()


def _tell_what_never_ran() -> None:
    """Warns at the end of a program without `execute()`, unless it failed."""
    has_failed = hasattr(sys, "last_value") or hasattr(sys, "last_exc")
    # Not imported here: a module that is new could not start at the end of the process.
    start = sys.modules.get("penstock.job.start")
    has_launcher = start is not None and start.launcher() is not None
    if has_failed or has_launcher or hasattr(sys, "ps1"):
        return
    for env in list(_environments):
        node = env._program.never_ran()
        if node is not None:
            _log.warning(
                "'%s' never ran: the program ended without env.execute() behind it. Nothing of a "
                "stream runs before.",
                node.name,
            )


def _loose_ends(graph: StreamGraph) -> list[str]:
    used = {each.node_id for node in graph.nodes.values() for each in node.inputs}
    return [
        f"set_uid_hash() of operator '{node.name}' has no effect: its state goes by its uid "
        f"'{node.uid}'."
        for node in graph.nodes.values()
        if node.uid and node.uid_hash
    ] + [
        f"nothing takes what operator '{node.name}' gives; end it with print() or sink_to()."
        for node_id, node in graph.nodes.items()
        if node_id not in used and node.kind is not NodeKind.SINK
    ]


def _with_prefix(node: Node) -> Node:
    prefix = _PREFIXES.get(node.kind, "")
    return node if node.name.startswith(prefix) else replace(node, name=prefix + node.name)


def checked_source(source: Any, verb: str) -> Source:
    """Returns the source, or raises an error that says what a source is."""
    if isinstance(source, Source):
        check_methods(source, may_return=True)
        return source
    if hasattr(source, "build"):
        hint = "Call .build() on the builder first."
    elif isinstance(source, type):
        hint = "Pass an instance: are the brackets missing?"
    else:
        hint = "Take one of penstock.datastream.connectors, or subclass PythonSource."
    raise ProgramError(f"{verb} takes a source, but got {source!r:.80}. {hint}")
