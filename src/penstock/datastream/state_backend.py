"""PyFlink's `datastream.state_backend`: how working state is kept, as settings."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Final

from penstock.core.configuration import AsSettings, checked_number
from penstock.core.errors import ProgramError
from penstock.core.refused_names import earlier_keywords, names_of, refuses_methods
from penstock.datastream.checkpoint_storage import (
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)

__getattr__ = names_of(__name__)

_ROCKSDB: Final = "state.backend.rocksdb."
_SAVEPOINTS: Final = "execution.checkpointing.savepoint-dir"


class StateBackend(AsSettings):
    """How working state is kept."""

    def __init__(self, name: str) -> None:
        super().__init__({"state.backend.type": name})

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class HashMapStateBackend(StateBackend):
    """Keeps state as objects in memory."""

    def __init__(self) -> None:
        super().__init__("hashmap")


class PredefinedOptions(Enum):
    """Flink's ready-made tunings of RocksDB. Accepted and reported: Penstock tunes it itself."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


@refuses_methods
class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in RocksDB on a local disk; it may be larger than memory."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        super().__init__("rocksdb")
        if enable_incremental_checkpointing not in (None, True, False):
            raise ProgramError(
                f"enable_incremental_checkpointing is {enable_incremental_checkpointing!r}; it "
                "must be None, True or False."
            )
        self._paths: list[str] = []
        if enable_incremental_checkpointing is not None:
            incremental = "true" if enable_incremental_checkpointing else "false"
            self.settings["execution.checkpointing.incremental"] = incremental

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets the directory of the databases; it should be fast and may vanish."""
        if len(paths) > 1:
            raise ProgramError(
                f"set_db_storage_paths() got {len(paths)} directories; give one. Several disks are "
                "best joined below the file system."
            )
        self._paths = [str(path) for path in paths]
        self.settings.pop(_ROCKSDB + "localdir", None)
        if paths:
            self.settings[_ROCKSDB + "localdir"] = self._paths[0]

    def get_db_storage_paths(self) -> list[str]:
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        return self.settings.get("execution.checkpointing.incremental") == "true"

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Reported as without effect unless it is DEFAULT."""
        self.settings[_ROCKSDB + "predefined-options"] = options.name

    def get_predefined_options(self) -> PredefinedOptions:
        return PredefinedOptions[self.settings.get(_ROCKSDB + "predefined-options", "DEFAULT")]

    def get_options(self) -> None:
        """Returns None: there is no factory of options."""

    def get_number_of_transfer_threads(self) -> int:
        return int(self.settings.get(_ROCKSDB + "checkpoint.transfer.thread.num", "4"))

    @earlier_keywords(number_of_transfering_threads="number_of_transferring_threads")
    def set_number_of_transfer_threads(self, number_of_transferring_threads: int) -> None:
        """Sets how many files are uploaded at once."""
        number = checked_number(number_of_transferring_threads, "the number of transfer threads", 1)
        self.settings[_ROCKSDB + "checkpoint.transfer.thread.num"] = str(number)


# -- Flink 1: one object for the backend and for where its checkpoints are kept --------------------


class MemoryStateBackend(HashMapStateBackend):
    """Flink 1's name for `HashMapStateBackend` with `JobManagerCheckpointStorage`."""

    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        super().__init__()
        self._storage = JobManagerCheckpointStorage(checkpoint_path, max_state_size)
        self.settings |= self._storage.settings
        if savepoint_path is not None:
            self.settings[_SAVEPOINTS] = savepoint_path

    def get_max_state_size(self) -> int:
        return self._storage.get_max_state_size()

    def is_using_asynchronous_snapshots(self) -> bool:
        """Returns True: checkpoints are always written while the job goes on."""
        return True


class FsStateBackend(HashMapStateBackend):
    """Flink 1's name for `HashMapStateBackend` with `FileSystemCheckpointStorage`."""

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        super().__init__()
        self._storage = FileSystemCheckpointStorage(
            checkpoint_directory_uri,
            file_state_size_threshold,
            -1 if write_buffer_size is None else write_buffer_size,
        )
        self.settings |= self._storage.settings
        if default_savepoint_directory_uri is not None:
            self.settings[_SAVEPOINTS] = default_savepoint_directory_uri

    def get_checkpoint_path(self) -> str:
        return self._storage.get_checkpoint_path()

    def get_min_file_size_threshold(self) -> int:
        return self._storage.get_min_file_size_threshold()

    def get_write_buffer_size(self) -> int:
        return self._storage.get_write_buffer_size()

    def is_using_asynchronous_snapshots(self) -> bool:
        """Returns True: checkpoints are always written while the job goes on."""
        return True


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """Flink 1's name for `EmbeddedRocksDBStateBackend` with the storage of its checkpoints."""

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
    ) -> None:
        super().__init__(enable_incremental_checkpointing)
        if checkpoint_stream_backend is None:
            checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        self._checkpoint_backend = checkpoint_stream_backend
        self.settings = checkpoint_stream_backend.settings | self.settings

    def get_checkpoint_backend(self) -> StateBackend:
        return self._checkpoint_backend

    get_number_of_transfering_threads = EmbeddedRocksDBStateBackend.get_number_of_transfer_threads
    set_number_of_transfering_threads = EmbeddedRocksDBStateBackend.set_number_of_transfer_threads
