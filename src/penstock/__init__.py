"""Penstock: Apache Flink's DataStream model in plain Python, on Spark."""
