"""Rows as JSON, CSV and Avro, between the bytes of a message and the types of a program."""
