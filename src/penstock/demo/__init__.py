"""The demo job: events per channel and behaviour in one-minute windows, from a late source."""
