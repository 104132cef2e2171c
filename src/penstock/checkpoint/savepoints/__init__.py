"""Savepoints: written, copied, claimed."""
