"""A job in the process that runs it: its settings, attempts, record and documents."""
