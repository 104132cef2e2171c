"""Snapshots as data: read, compared, edited, verified."""
