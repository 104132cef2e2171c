"""Warnings of Penstock on the console of a program that has not set up logging."""

from __future__ import annotations

import logging
import sys
from typing import Final

from penstock.core.redaction import SecretlessFormatter

LOGGER: Final = "penstock"


class ConsoleWarnings(logging.Handler):
    """Shows warnings with their level on standard error, as long as nobody else shows them.

    Python's own last resort shows their text alone, which reads as if the program had printed it.
    What a program configures, before or after, is not touched: where a handler of its own hears
    our loggers, this one is silent.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(SecretlessFormatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if is_heard(record.name):
            return
        try:
            print(self.format(record), file=sys.stderr)
        except Exception:
            self.handleError(record)


def is_heard(name: str) -> bool:
    """Whether a handler that is not Penstock's gets what a logger says."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(not type(each).__module__.startswith(LOGGER) for each in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
