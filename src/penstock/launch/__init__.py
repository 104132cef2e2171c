"""Composition root: turns a stream graph and settings into a running job."""

from penstock.launch.local import execute, execute_async

__all__ = ["execute", "execute_async"]
