"""The Spark adapter: sessions, epochs as chains of RDDs. The only package that knows pyspark."""
