"""The `rocksdb` backend, and the rows that it is made of."""
