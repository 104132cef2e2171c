"""Everything that processes records inside a subtask, batch by batch."""
