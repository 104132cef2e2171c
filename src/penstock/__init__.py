"""Penstock: Apache Flink's DataStream model in plain Python, on Spark."""

import logging

from penstock.core.redaction import LOGGER, ConsoleWarnings
from penstock.core.refused_names import install
from penstock.version import __version__ as __version__

logging.getLogger(LOGGER).addHandler(ConsoleWarnings())
install()
