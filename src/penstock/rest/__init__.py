"""The service's outside: REST routes with Flink's paths and shapes, the web page, metrics.

`views` are pure functions from a job's facts to documents; `app` serves what a dispatcher has.
Importing this package loads nothing: FastAPI comes with the extra `server`.
"""
