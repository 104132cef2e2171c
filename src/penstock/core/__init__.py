"""What several packages need: records, times, key groups, handles, types, settings, errors."""
