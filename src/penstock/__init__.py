"""Penstock: Apache Flink's DataStream model in plain Python, on Spark."""

import logging

from penstock.core.console_log import LOGGER, ConsoleWarnings

logging.getLogger(LOGGER).addHandler(ConsoleWarnings())
