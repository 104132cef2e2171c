"""The Spark adapter: sessions, and epochs as chains of RDDs. The only package that knows pyspark."""
