"""Composition root: turns a stream graph and settings into a running job.

Imports nothing by itself, so that the command line loads only the part that a verb needs.
"""
