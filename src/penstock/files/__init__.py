"""Files anywhere, by one contract: written once, whole and durable, under names never reused."""
