"""Runs a job graph epoch by epoch: subtasks, exchanges, the driver's fold. Knows no Spark."""
