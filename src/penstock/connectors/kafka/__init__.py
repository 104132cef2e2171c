"""Kafka as a source and as a sink, through confluent-kafka."""
