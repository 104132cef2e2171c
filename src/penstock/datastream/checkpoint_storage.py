"""PyFlink's `datastream.checkpoint_storage`: where checkpoints are kept, as settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from penstock.core.configuration import AsSettings
from penstock.core.errors import ProgramError
from penstock.core.refused_names import names_of

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

__getattr__ = names_of(__name__)

_PREFIX: Final = "execution.checkpointing."
_MAX_STATE: Final = "penstock.checkpoint.max-state-size"


class CheckpointStorage(AsSettings):
    """Where checkpoints are kept."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints in the coordinator's memory: for trials, lost with the process."""

    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = 5 * 1024 * 1024

    def __init__(
        self, checkpoint_path: str | None = None, max_state_size: int | None = None
    ) -> None:
        self._checkpoint_path = checkpoint_path
        self._max_state_size = max_state_size or self.DEFAULT_MAX_STATE_SIZE
        settings = {_PREFIX + "storage": "jobmanager"}
        if max_state_size is not None:
            settings[_MAX_STATE] = str(max_state_size)
        if checkpoint_path is not None:
            settings[_PREFIX + "dir"] = str(checkpoint_path)
        super().__init__(settings)

    def get_checkpoint_path(self) -> str | None:
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        return None


class FileSystemCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints as files in a directory, which must be durable."""

    MAX_FILE_STATE_THRESHOLD: ClassVar[int] = 1024 * 1024
    DEFAULT_FILE_STATE_THRESHOLD: ClassVar[int] = 20 * 1024
    DEFAULT_WRITE_BUFFER_SIZE: ClassVar[int] = 4096

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if checkpoint_path is None:
            raise ProgramError(
                "FileSystemCheckpointStorage needs the directory of the checkpoints, for example "
                'FileSystemCheckpointStorage("file:///checkpoints").'
            )
        given = file_state_size_threshold is not None and file_state_size_threshold >= 0
        threshold = file_state_size_threshold if given else self.DEFAULT_FILE_STATE_THRESHOLD
        assert threshold is not None
        if threshold > self.MAX_FILE_STATE_THRESHOLD:
            raise ProgramError(
                f"file_state_size_threshold is {threshold} bytes; the limit is "
                f"{self.MAX_FILE_STATE_THRESHOLD}."
            )
        self._path = str(checkpoint_path)
        self._threshold = threshold
        self._buffer = (
            self.DEFAULT_WRITE_BUFFER_SIZE if write_buffer_size < 0 else write_buffer_size
        )
        settings = {_PREFIX + "storage": "filesystem", _PREFIX + "dir": self._path}
        if given:
            settings[_PREFIX + "data-inline-threshold"] = str(threshold)
        if write_buffer_size >= 0:
            settings[_PREFIX + "write-buffer-size"] = str(write_buffer_size)
        super().__init__(settings)

    def get_checkpoint_path(self) -> str:
        return self._path

    def get_savepoint_path(self) -> str | None:
        return None

    def get_min_file_size_threshold(self) -> int:
        """Returns the size in bytes up to which state travels inside `_metadata`."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Returns the larger one of the buffer and the threshold, as Flink does."""
        return max(self._buffer, self._threshold)


def storage_of(configuration: Configuration) -> CheckpointStorage | None:
    """Returns the storage that a configuration names, or None."""
    directory = configuration.get_string(_PREFIX + "dir")
    name = configuration.get_enum(_PREFIX + "storage")
    if name == "filesystem" or (name is None and directory is not None):
        return FileSystemCheckpointStorage(directory)
    if name == "jobmanager":
        given = configuration.contains_key(_MAX_STATE)
        size = configuration.get_size_bytes(_MAX_STATE) if given else None
        return JobManagerCheckpointStorage(directory, size)
    return None
