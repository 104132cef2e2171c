"""Sources and sinks: how records enter and leave a job. Knows no operator and no state."""
