"""What a job holds from its start to its end, over all attempts: engine, sinks, checkpoints, files.

An attempt that fails leaves all of it behind; the next one goes on with it.
"""

from __future__ import annotations

import contextlib
import logging
import random  # noqa: TID251 - where a job is wired is where chance comes from
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.checkpoint.files import CheckpointFiles, JobIdentity
from penstock.checkpoint.service import CheckpointService
from penstock.checkpoint.settings import is_kept
from penstock.checkpoint.snapshot_load import LoadedSnapshot, entry_of, load_entry
from penstock.checkpoint.start_point import find_start
from penstock.connectors.spark import commit_tag
from penstock.core.errors import ProcessLostError
from penstock.core.fault_points import fault_span
from penstock.core.job import JobStatus
from penstock.files.urls import Storages, canonical_url
from penstock.job.attempt_directories import RunningMark, remove_dead_attempts
from penstock.job.restore import check_fit, restored_state, with_places
from penstock.job.snapshot import LINE, PARALLELISM, SLOTS, JobForCheckpoints
from penstock.jobmanager.high_availability.coordination import open_job_records
from penstock.runtime.driver import DriverParts, JobDriver
from penstock.runtime.records import JobProgram
from penstock.runtime.sinks import SinkCommits
from penstock.runtime.state_files import HeldFiles, StateFiles

if TYPE_CHECKING:
    import threading

    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint
    from penstock.core.times import Clock
    from penstock.graph.job_graph import JobGraph
    from penstock.job.engine import Engine
    from penstock.job.settings import JobSettings
    from penstock.runtime.job_state import EpochSummary, JobState

_log = logging.getLogger("penstock.job")
_RESTORE = fault_span("job.restore")
_AGAIN_S: Final = 1.0


class JobResources:
    """Opened when the job starts; used by its thread, closed when it has ended.

    Attributes:
        engine: Runs epochs.
        sinks: Commits what they wrote.
        checkpoint_files: Does to storage what checkpoints ask for.
        service: Takes checkpoints.
    """

    def __init__(self, engine: Engine, settings: JobSettings, job_id: str, clock: Clock) -> None:
        self.engine = engine
        self._settings = settings
        self._job_id = job_id
        self._clock = clock
        self._admission = settings.admission.before(len(engine.graph.levels))
        self._driver: JobDriver | None = None
        self._loss: ProcessLostError | None = None
        self._mark: RunningMark | None = None
        self._fetched_by_workers: LoadedSnapshot | None = None
        """What the present attempt was restored from, where workers fetch it."""
        stays = engine.keeps_state_apart(settings.shares_directory)
        self._state = replace(settings.state, stays=stays)
        held = HeldFiles(settings.state.directory)
        self._files = held if stays else StateFiles(settings.state.directory)
        self.sinks = SinkCommits(engine.graph, job_id, clock, engine.spark, self._files)
        checkpoints = settings.checkpoints
        self._records = open_job_records(
            settings.coordination, settings.storage_options, job_id, checkpoints.directory
        )
        identity = JobIdentity(
            job_id,
            engine.graph.job_name,
            settings.state.directory,
            settings.leader_epoch,
            self._records,
        )
        storages = Storages(settings.storage_options)
        self.checkpoint_files = CheckpointFiles(identity, checkpoints, clock, storages)
        if stays:
            self.checkpoint_files.holders = held
        engine.shared = _shared_directories(settings)
        self._files.on_new = self.checkpoint_files.prepare
        self.job = JobForCheckpoints(
            engine.graph, self.sinks, self._files, engine.slots_of_executors
        )
        self.service = CheckpointService(
            self.checkpoint_files, checkpoints, self.job, clock, random.randint
        )

    def start(
        self, graph: JobGraph, rescale: Callable[[dict[str, int]], JobGraph]
    ) -> JobState | None:
        """Starts checkpoints; returns the state that the job, as written, starts from.

        Args:
            graph: The job.
            rescale: Returns the job with other parallelisms: it is told those of an attempt in a
                process before this one.
        """
        directory = Path(self._settings.state.directory).parent
        self._mark = RunningMark(directory)
        remove_dead_attempts(directory)
        state = None
        start = find_start(
            self.checkpoint_files, self._settings.restore_path, self._settings.claim_mode
        )
        if start is not None and start.claim_mode is None:
            manifest = start.loaded.manifest
            if start.restored.last_id == manifest.checkpoint_id:
                # Else there may be a savepoint with output that came after this checkpoint.
                self.job.line = manifest.job.get(LINE, self.job.line)
            self.engine.slots_before = manifest.job.get(SLOTS, 0)
            self.job.parallelism = manifest.job.get(PARALLELISM, {})
            if self.job.parallelism:
                graph = rescale(self.job.parallelism)
                self.reshape(graph)
        check_fit(graph, self._settings, start)
        if start is not None:
            state = self._restored(start.loaded)
            self.engine.check_restored(state)
            # Last, since it leaves a mark: what does not fit must not be claimed.
            start.adopt(self.checkpoint_files, self._job_id)
        self.service.start(None if start is None else start.restored)
        return state

    def reshape(self, graph: JobGraph) -> None:
        """Has the next attempt run the job with other parallelisms."""
        self.engine.reshape(graph, self._settings)
        self.sinks.reshaped(self.engine.graph)
        self.job.reshaped(self.engine.graph)

    def restored(self, checkpoint: CompletedCheckpoint) -> JobState:
        """Returns the state in a checkpoint of the job, its files fetched."""
        return self._restored(load_entry(self.checkpoint_files.storages, entry_of(checkpoint)))

    def _restored(self, loaded: LoadedSnapshot) -> JobState:
        state = restored_state(self.engine.graph, loaded.manifest)
        with _RESTORE:
            if self._state.stays:
                state = with_places(state, loaded)
                self._fetched_by_workers = loaded
            self.checkpoint_files.fetch(loaded, only_output=self._state.stays)
        self.sinks.restore(loaded.manifest.sinks, loaded.manifest.job_id)
        return state

    def driver(
        self, attempt: int, state: JobState | None, on_epoch: Callable[[EpochSummary], None]
    ) -> JobDriver:
        """Returns the driver of an attempt; of local files only those of its state stay."""
        settings = self._settings
        if self._driver is not None:
            self._admission = self._driver.admission
        if self._loss is not None:
            self._recover_from(self._loss)
        kept = self._files.keep_only({} if state is None else state.versions)
        program = JobProgram(
            self._job_id,
            attempt,
            self.engine.graph,
            self._state,
            settings.parameters,
            settings.leader_epoch,
            settings.object_reuse,
            settings.admission.target_ms,
            kept,
            self.job.line,
        )
        shared = DriverParts(
            self.sinks,
            self._files,
            self.service,
            self._clock,
            on_epoch,
            settings.epoch_interval_ms,
            commits_epochs=not settings.checkpoints.is_enabled,
        )
        self._driver = JobDriver(
            program, self.engine.runner(program), shared, state, self._admission
        )
        return self._driver

    def failed(self, error: Exception) -> None:
        """Takes note of why an attempt failed.

        Raises:
            CheckpointError: It was restored from a snapshot that is damaged.
        """
        loaded, self._fetched_by_workers = self._fetched_by_workers, None
        epoch = None if self._driver is None else self._driver.state.epoch
        if loaded is not None and epoch == loaded.manifest.epoch:
            self.checkpoint_files.check_whole(loaded)
        self._loss = error if isinstance(error, ProcessLostError) else None

    def _recover_from(self, loss: ProcessLostError) -> None:
        """Starts Spark again if it died, and has epochs move less."""
        if loss.failure_label == "engine-lost":
            self.engine.start_again()
        self._admission = self._admission.after_loss()
        self._loss = None
        _log.warning(
            "Epochs of job %s move at most %d MB and read at most %d records for now, since a "
            "process was lost.",
            self._job_id,
            self._admission.max_bytes >> 20,
            self._admission.max_records,
        )

    def end_commits(self, left_behind: threading.Thread | None = None) -> None:
        """Ends Spark jobs that still commit output of a job that has ended without them.

        Those that the job's thread begins only then end, too, as long as it goes on.
        """
        while self.engine.spark is not None:
            with contextlib.suppress(Exception):
                self.engine.spark.sparkContext.cancelJobsWithTag(commit_tag(self._job_id))
            if left_behind is None or not left_behind.is_alive():
                return
            left_behind.join(_AGAIN_S)

    def close(self, status: JobStatus) -> None:
        """Lets go of everything, now that the job has ended so."""
        self._files.abandon(f"job {self._job_id} has ended.")
        self.checkpoint_files.pointer.ending = "" if status is JobStatus.SUSPENDED else status.name
        self.service.close(status)
        if self._records is not None:
            self._records.close()
        self.sinks.close()
        self.engine.close()
        self._remove_directories(status)
        if self._mark is not None:
            self._mark.release()

    def _remove_directories(self, status: JobStatus) -> None:
        """Removes local files, except output that a snapshot which stays may still name."""
        state = self._settings.state
        job_directory = Path(state.directory).parent
        checkpoints = self._settings.checkpoints
        is_retained = checkpoints.is_enabled and is_kept(checkpoints.retention, status)
        keeps = self.sinks.has_promised or is_retained
        scratch = Path(state.scratch_directory)
        if keeps and any(scratch.glob("sink-*")):
            job_directory = Path(state.directory)
            _log.info(
                "Output of sinks that snapshots of job %s name stays in %s; delete it with them.",
                self._job_id,
                scratch,
            )
        shutil.rmtree(job_directory, ignore_errors=True)


def _shared_directories(settings: JobSettings) -> dict[str, str]:
    """Returns the directories of this host that all hosts must see, by their settings."""
    checkpoints = settings.checkpoints
    found = {}
    if checkpoints.is_enabled and checkpoints.directory:
        found["execution.checkpointing.dir"] = canonical_url(checkpoints.directory)
    if checkpoints.savepoint_directory:
        found["execution.checkpointing.savepoint-dir"] = canonical_url(
            checkpoints.savepoint_directory
        )
    found = {key: url for key, url in found.items() if "://" not in url}
    if settings.shares_directory:
        found["io.tmp.dirs"] = settings.state.directory
    return found
