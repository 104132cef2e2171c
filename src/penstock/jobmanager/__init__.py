"""Decides about jobs: life cycle, restarts, leadership. Never touches records or state."""
