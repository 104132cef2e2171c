"""Benchmarks beside PyFlink, Flink SQL and PySpark; see README.md here."""
