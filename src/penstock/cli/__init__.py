"""The command line. Starts without Spark: what a verb needs is imported when it runs."""
