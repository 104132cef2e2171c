"""Counts words, and prints a word's count each time it grows."""

from penstock.datastream import StreamExecutionEnvironment

LINES = ["to be or not to be", "that is the question"]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    (
        env.from_collection(LINES)
        .flat_map(lambda line: [(word, 1) for word in line.split()])
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .print()
    )
    env.execute("word count")


if __name__ == "__main__":
    main()
