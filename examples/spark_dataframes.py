"""Takes rows from a Spark DataFrame, keeps state per row, hands results back to Spark."""

import tempfile

from pyspark.sql import SparkSession

from penstock.datastream import StreamExecutionEnvironment


def main(folder: str) -> None:
    spark = SparkSession.builder.master("local[2]").appName("dataframes").getOrCreate()
    orders = spark.createDataFrame([("ann", 30), ("bob", 5), ("ann", 12)], ["name", "amount"])
    env = StreamExecutionEnvironment.get_execution_environment()
    totals = (
        env.from_spark(orders.where("amount > 1"))
        .map(lambda row: (row["name"], row["amount"]))
        .key_by(lambda pair: pair[0])
        .sum(1)
    )
    rows = totals.map(lambda pair: {"name": pair[0], "total": pair[1]})
    rows.to_spark(output_format="parquet", path=folder)
    env.execute("totals")
    spark.read.parquet(folder).groupBy("name").max("total").orderBy("name").show()


if __name__ == "__main__":
    main(tempfile.mkdtemp())
