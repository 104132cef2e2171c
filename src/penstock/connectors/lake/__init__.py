"""Lake tables, without Spark and without a JVM: Delta and Iceberg."""
