"""Several job managers: what they share, and where it is kept."""
