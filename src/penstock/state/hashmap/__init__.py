"""The `hashmap` backend."""
