"""A running count per user with PySpark's own `transformWithState`, RocksDB state store.

python spark_users.py INPUT OUTPUT (rows|pandas) [KEY=VALUE ...]

Both are folders, or topics of Kafka: kafka://BROKERS/TOPIC.
"""

import sys

import pandas as pd
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import col, split
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

KAFKA = "kafka://"


class CountPerUser(StatefulProcessor):
    def init(self, handle):
        self.state = handle.getValueState("count", "count long")

    def counts(self, rows):
        stored = self.state.get()
        first = (stored[0] if stored else 0) + 1
        last = first + rows - 1
        self.state.update((last,))
        return range(first, last + 1)

    def close(self):
        pass


class CountRows(CountPerUser):
    def handleInputRows(self, key, rows, timerValues):
        for count in self.counts(sum(1 for _ in rows)):
            yield Row(value=f"{key[0]}\t{count}")


class CountPandas(CountPerUser):
    def handleInputRows(self, key, rows, timerValues):
        counts = self.counts(sum(len(frame) for frame in rows))
        yield pd.DataFrame({"value": [f"{key[0]}\t{count}" for count in counts]})


def open_source(spark, source):
    if not source.startswith(KAFKA):
        return spark.readStream.text(source)
    brokers, topic = source.removeprefix(KAFKA).split("/")
    options = {
        "kafka.bootstrap.servers": brokers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    records = spark.readStream.format("kafka").options(**options).load()
    return records.select(col("value").cast("string"))


def main(source, target, form, *settings):
    builder = SparkSession.builder.master("local[2]")
    builder = builder.config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    for setting in settings:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")  # Otherwise one warning a new key.

    lines = open_source(spark, source)
    users = lines.select(split("value", "\t")[2].cast("long").alias("id")).groupBy(col("id"))
    if form == "rows":
        counts = users.transformWithState(CountRows(), "value string", "append", "none")
    else:
        counts = users.transformWithStateInPandas(CountPandas(), "value string", "append", "none")
    writer = counts.writeStream.trigger(availableNow=True)
    if target.startswith(KAFKA):
        brokers, topic = target.removeprefix(KAFKA).split("/")
        options = {"kafka.bootstrap.servers": brokers, "topic": topic}
        writer = writer.format("kafka").options(**options)
        query = writer.option("checkpointLocation", "checkpoint").start()
    else:
        writer = writer.format("text")
        query = writer.option("checkpointLocation", target + "-checkpoint").start(target)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
