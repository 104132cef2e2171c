"""PyFlink's `metrics` module: counters, gauges, meters and distributions of user functions."""
