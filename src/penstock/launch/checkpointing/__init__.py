"""Drives the checkpoint coordinator of a running job."""
