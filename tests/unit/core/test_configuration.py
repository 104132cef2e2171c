"""Settings keep their source, and nothing that was overruled or misspelt stays unsaid."""

from __future__ import annotations

import inspect

import pytest

from penstock.core import options
from penstock.core.configuration import Configuration, Rank, calling_line
from penstock.core.errors import ConfigurationError, ProgramError
from penstock.core.setting_texts import parse

BACKEND = "state.backend.type"


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_code_outranks_command_line_outranks_file_outranks_default() -> None:
    config = Configuration()
    key = "parallelism.default"
    assert (config.get_integer(key), str(config.setting(key))) == (1, "default")
    config.put(key, "2", Rank.FILE, "conf/config.yaml:3")
    assert (config.get_integer(key), str(config.setting(key))) == (2, "conf/config.yaml:3")
    config.put(key, "3", Rank.COMMAND_LINE, "-D")
    assert (config.get_integer(key), str(config.setting(key))) == (3, "-D")
    config.set_integer(key, 4)
    here = line() - 1
    assert config.get_integer(key) == 4
    assert str(config.setting(key)) == f"code test_configuration.py:{here}"
    config.put(key, "5", Rank.FILE, "conf/config.yaml:9")
    assert config.get_integer(key) == 4


def test_overruled_values_are_told() -> None:
    config = Configuration()
    config.put(BACKEND, "rocksdb", Rank.FILE, "conf/config.yaml:3")
    config.set_string(BACKEND, "hashmap")
    here = line() - 1
    assert config.warnings() == [
        f"state.backend.type: the program sets 'hashmap' (test_configuration.py:{here}), "
        "conf/config.yaml:3 says 'rocksdb'. Code wins. Remove the call, or pass "
        "-D penstock.config.ignore-code-overrides=true to let the configuration win."
    ]


def test_configuration_may_win() -> None:
    config = Configuration()
    config.put(BACKEND, "rocksdb", Rank.FILE, "conf/config.yaml:3")
    config.set_string(BACKEND, "hashmap")
    config.set_boolean("pipeline.auto-generate-uids", value=False)
    config.put("penstock.config.ignore-code-overrides", "true", Rank.COMMAND_LINE, "-D")
    assert config.get_enum(BACKEND) == "rocksdb"
    # Code still counts where nobody else said anything.
    assert config.get_boolean("pipeline.auto-generate-uids") is False
    assert "The configuration wins" in config.warnings()[0]


def test_code_cannot_lift_its_own_rank() -> None:
    config = Configuration()
    config.put(BACKEND, "rocksdb", Rank.FILE, "conf/config.yaml:3")
    config.set_string(BACKEND, "hashmap")
    config.set_boolean("penstock.config.ignore-code-overrides", value=True)
    assert config.get_enum(BACKEND) == "hashmap"


def test_equal_values_are_not_worth_a_warning() -> None:
    config = Configuration()
    config.put(BACKEND, "rocksdb", Rank.FILE, "conf/config.yaml:3")
    config.set_string(BACKEND, "rocksdb")
    assert config.warnings() == []


@pytest.mark.parametrize(
    ("old", "given", "new", "meant"),
    [
        ("state.checkpoints.dir", "s3://a", "execution.checkpointing.dir", "s3://a"),
        ("state.backend.fs.checkpointdir", "/c", "execution.checkpointing.dir", "/c"),
        (
            "state.backend.fs.memory-threshold",
            "1024",
            "execution.checkpointing.data-inline-threshold",
            "1024",
        ),
        ("state.savepoints.dir", "/s", "execution.checkpointing.savepoint-dir", "/s"),
        ("state.checkpoints.num-retained", "20", "execution.checkpointing.num-retained", "20"),
        ("state.backend", "rocksdb", BACKEND, "rocksdb"),
        ("state.backend", "filesystem", "execution.checkpointing.storage", "filesystem"),
        ("state.backend", "filesystem", BACKEND, "hashmap"),
        ("state.backend", "memory", "execution.checkpointing.storage", "jobmanager"),
        ("state.backend", "jobmanager", BACKEND, "hashmap"),
        ("restart-strategy", "none", "restart-strategy.type", "disable"),
        ("restart-strategy.type", "off", "restart-strategy.type", "disable"),
        ("restart-strategy", "fixed-delay", "restart-strategy.type", "fixed-delay"),
        ("recovery.mode", "zookeeper", "high-availability.type", "zookeeper"),
        ("recovery.mode", "standalone", "high-availability.type", "NONE"),
        ("recovery.zookeeper.quorum", "z:1", "high-availability.zookeeper.quorum", "z:1"),
        ("recovery.zookeeper.path.root", "/f", "high-availability.zookeeper.path.root", "/f"),
        ("recovery.zookeeper.storageDir", "/h", "high-availability.storageDir", "/h"),
        ("recovery.jobmanager.port", "1", "high-availability.jobmanager.port", "1"),
        ("jobmanager.web.port", "8082", "rest.port", "8082"),
        ("taskmanager.tmp.dirs", "/t", "io.tmp.dirs", "/t"),
        ("pipeline.operator-chaining", "false", "pipeline.operator-chaining.enabled", "false"),
        ("execution.savepoint.path", "/p", "execution.state-recovery.path", "/p"),
    ],
)
def test_old_names(old: str, given: str, new: str, meant: str) -> None:
    config = Configuration()
    config.put(old, given, Rank.FILE, "flink-conf.yaml:7")
    assert config.get_string(new) == meant
    assert config.contains_key(old)
    assert config.contains_key(new)
    if old != new:
        said = [text for text in config.warnings() if "is an old name" in text]
        assert any(f"it sets {new} = {meant}" in text for text in said)
        assert all("flink-conf.yaml:7" in text for text in said)


@pytest.mark.parametrize("new_first", [True, False])
def test_new_name_wins_over_old_one(new_first: bool) -> None:
    config = Configuration()
    pairs = [("rest.port", "1"), ("jobmanager.web.port", "2")]
    for key, value in pairs if new_first else reversed(pairs):
        config.put(key, value, Rank.FILE, "config.yaml:1")
    assert config.get_integer("rest.port") == 1


def test_unknown_key_gets_its_nearest_match() -> None:
    config = Configuration.from_dict({"execution.checkpointing.intervall": "1 s"})
    (said,) = config.warnings()
    assert said.endswith(
        "is unknown and has no effect. Did you mean 'execution.checkpointing.interval'?"
    )


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("taskmanager.numberOfTaskSlots", "set spark.executor.cores instead"),
        ("jobmanager.heap.mb", "Flink dropped it too"),
        ("taskmanager.memory.process.size", "Spark has executors"),
        ("execution.checkpointing.unaligned.enabled", "aligned barrier already"),
        ("table.exec.state.ttl", "there is no Table API"),
        ("metrics.reporter.prom.port", "metrics are at /metrics"),
        ("python.execution-mode", "Python runs in Spark's workers"),
        ("heartbeat.interval", "spark.executor.heartbeatInterval"),
        ("execution.checkpointing.local-backup.enabled", "always uses what is still on local disk"),
    ],
)
def test_known_keys_without_effect_are_told(key: str, said: str) -> None:
    (warning,) = Configuration.from_dict({key: "1"}).warnings()
    assert "has no effect" in warning
    assert said in warning


def test_free_keys_and_those_of_storage_are_fine() -> None:
    free = {"penstock.spark.conf.spark.sql.x": "1", "s3.endpoint": "http://localhost:9"}
    assert Configuration.from_dict(free).warnings() == []


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("parallelism.default", "two", "it must be a whole number"),
        ("pipeline.auto-generate-uids", "yes", "it must be true or false"),
        ("restart-strategy.exponential-delay.jitter-factor", "x", "it must be a number"),
        ("execution.checkpointing.timeout", "soon", "is no span of time"),
        ("execution.checkpointing.data-inline-threshold", "big", "is no size"),
        ("execution.checkpointing.mode", "TWICE", "one of EXACTLY_ONCE, AT_LEAST_ONCE"),
        ("pipeline.global-job-parameters", "a", "it must be pairs such as a:1,b:2"),
    ],
)
def test_wrong_values_name_key_value_and_source(key: str, text: str, wanted: str) -> None:
    config = Configuration()
    config.put(key, text, Rank.FILE, "conf/config.yaml:4")
    with pytest.raises(ConfigurationError) as raised:
        config.read(key)
    said = str(raised.value)
    assert said.startswith(f"{key} is '{text}'")
    assert wanted in said
    assert said.endswith("It was set by conf/config.yaml:4.")


def test_every_default_can_be_read() -> None:
    for option in options.OPTIONS.values():
        if option.default is not None:
            parse(option.default, option.kind, option.key, option.choices)


def test_no_name_means_two_settings() -> None:
    names = [old for option in options.OPTIONS.values() for old in option.deprecated]
    assert len(names) == len(set(names))
    assert not set(names) & set(options.OPTIONS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("execution.checkpointing.timeout", 600_000),
        ("execution.checkpointing.min-pause", 0),
        ("execution.checkpointing.max-concurrent-checkpoints", 1),
        ("execution.checkpointing.tolerable-failed-checkpoints", 0),
        ("execution.checkpointing.num-retained", 1),
        ("execution.checkpointing.data-inline-threshold", 20_480),
        ("execution.checkpointing.write-buffer-size", 4_096),
        (
            "execution.checkpointing.externalized-checkpoint-retention",
            "NO_EXTERNALIZED_CHECKPOINTS",
        ),
        ("execution.checkpointing.interval", None),
        ("execution.checkpointing.incremental", False),
        ("state.backend.type", "hashmap"),
        ("execution.state-recovery.claim-mode", "NO_CLAIM"),
        ("pipeline.auto-watermark-interval", 200),
        ("restart-strategy.exponential-delay.backoff-multiplier", 1.5),
        ("restart-strategy.exponential-delay.reset-backoff-threshold", 3_600_000),
        ("high-availability.zookeeper.client.session-timeout", 60_000),
        ("rest.port", 8081),
        ("web.checkpoints.history", 10),
        ("heartbeat.timeout", 50_000),
    ],
)
def test_defaults_are_those_of_the_design(key: str, value: object) -> None:
    assert Configuration().read(key) == value


def test_setters_and_getters_of_pyflink() -> None:
    config = Configuration()
    config.set_string("a", "x").set_integer("b", 7).set_boolean("c", value=True)
    config.set_float("d", 0.5).set_bytearray("e", bytearray(b"\x00\xff"))
    assert config.get_string("a", "") == "x"
    assert config.get_integer("b", 0) == 7
    assert config.get_boolean("c", False) is True
    assert config.get_float("d", 0.0) == 0.5
    assert config.get_bytearray("e", bytearray()) == bytearray(b"\x00\xff")
    assert config.get_integer("missing", 3) == 3
    assert config.to_dict() == {"a": "x", "b": "7", "c": "true", "d": "0.5", "e": "\x00\xff"}
    assert config.key_set() == {"a", "b", "c", "d", "e"}
    assert config.remove_config("a")
    assert not config.remove_config("a")
    target: dict[str, str] = {}
    config.add_all_to_dict(target)
    assert set(target) == {"b", "c", "d", "e"}
    twin = Configuration(config)
    assert twin == config
    assert hash(twin) == hash(config)


def test_default_of_the_caller_outranks_that_of_the_registry() -> None:
    assert Configuration().get_integer("rest.port", 1) == 1
    assert Configuration().get_integer("rest.port") == 8081


def test_add_all_with_prefix() -> None:
    config = Configuration()
    config.add_all(Configuration.from_dict({"y": "1"}), "x.")
    assert config.to_dict() == {"x.y": "1"}


def test_lists_and_maps() -> None:
    config = Configuration()
    config.set("python.files", ["a.py", "b.py"])
    assert config.get_list("python.files") == ["a.py", "b.py"]
    config.set_string("python.files", "[a.py, 'b.py']")
    assert config.get_list("python.files") == ["a.py", "b.py"]
    config.set("pipeline.global-job-parameters", {"a": 1, "b": "x"})
    assert config.get_map("pipeline.global-job-parameters") == {"a": "1", "b": "x"}
    assert Configuration.parse_list_value("a;b") == ["a", "b"]
    assert Configuration.parse_list_value("") == []


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("'A;B';C", ["A;B", "C"]),
        ("'A;B';'C'", ["A;B", "C"]),
        ("'AB''D;B';C", ["AB'D;B", "C"]),
        ("A'BD;B';C", ["A'BD", "B'", "C"]),
        ('"A;B";C', ["A;B", "C"]),
        ('"AB""D;B";C', ['AB"D;B', "C"]),
        ('A"BD;B";C', ['A"BD', 'B"', "C"]),
        ("'AB\"''D;B';C", ["AB\"'D;B", "C"]),
        ('"AB\'""D;B";C', ["AB'\"D;B", "C"]),
        ("   'A;B'    ;   C   ", ["A;B", "C"]),
        ("'A;B'    ;C A", ["A;B", "C A"]),
        ("' A    ;B'    ;'   C'", [" A    ;B", "   C"]),
        ("['a, b', c]", ["a, b", "c"]),
        ("s3://b/a.py;x:y", ["s3://b/a.py", "x:y"]),
        ("a;;b;", ["a", "b"]),
    ],
)
def test_quotes_in_lists_are_flinks(text: str, items: list[str]) -> None:
    # Most of them are cases of Flink's StructuredOptionsSplitterTest.
    assert Configuration.parse_list_value(text) == items


@pytest.mark.parametrize(
    "text",
    [
        *("a:9092,b:9092", "a;b", "it's", "'", '"', '"x"', "'x'", "''", "", " x ", "{x}", "x}"),
        *("[x]", "https://h:1/?a=b,c&d='e'", "a:b", ":", ",", "';'", "a\nb", "x'y,z", "a:'b"),
    ],
)
def test_parameters_are_read_as_they_were_set(text: str) -> None:
    key = "pipeline.global-job-parameters"
    config = Configuration().set(key, {"servers": text, "last": "1", f"k{text}": "2"})
    assert config.get_map(key) == {"servers": text, "last": "1", f"k{text}": "2"}
    config.set("python.files", [text, "b.py"])
    assert config.get_list("python.files") == [text, "b.py"]


def test_warnings_name_no_secrets() -> None:
    config = Configuration()
    config.put("s3.secret-key", "hunter1", Rank.FILE, "conf/config.yaml:1")
    config.put("pipeline.global-job-parameters", "db.password:hunter3", Rank.FILE, "a file")
    config.set("s3.secret-key", "hunter2")
    config.set("pipeline.global-job-parameters", {"db.password": "it's, hunter4", "n": "5"})
    parameters, key = config.warnings()
    assert "hunter" not in key + parameters
    assert "s3.secret-key: the program sets '******' (test_configuration.py:" in key
    assert "sets 'db.password:******,n:5' (test_configuration.py:" in parameters


def test_files_are_separated_as_in_flink() -> None:
    config = Configuration()
    for text in ("a.py,b.zip#c,'d,e.py'", "a.py; b.zip#c;'d,e.py'", "[a.py, b.zip#c, 'd,e.py']"):
        config.set_string("python.archives", text)
        assert config.get_list("python.archives") == ["a.py", "b.zip#c", "d,e.py"]
    config.set_string("penstock.rest.savepoint-roots", "/a,b;/c")
    assert config.get_list("penstock.rest.savepoint-roots") == ["/a,b", "/c"]


def test_a_map_may_have_quotes_as_flink_or_yaml_puts_them() -> None:
    config = Configuration()
    for text in ("'a:''1,2''',b:3", "{a: '1,2', b: 3}", "{'a': \"1,2\"; 'b': '3'}"):
        config.set_string("pipeline.global-job-parameters", text)
        assert config.get_map("pipeline.global-job-parameters") == {"a": "1,2", "b": "3"}


@pytest.mark.parametrize(("key", "value"), [("", "x"), (None, "x"), ("a", 5)])
def test_keys_and_texts(key: str, value: str) -> None:
    with pytest.raises(ProgramError):
        Configuration().set_string(key, value)


def test_calling_line_is_the_users() -> None:
    assert calling_line() == f"test_configuration.py:{line()}"


def test_texts_of_typed_values_and_of_the_whole_are_flinks():
    config = Configuration().set_integer("a", 5).set_float("f", 1).set_boolean("b", value=True)
    assert config.get_string("f") == "1.0"
    assert str(config) == "{a=5, b=true, f=1.0}"


@pytest.mark.parametrize("value", [None, [None], {"a": None}])
def test_no_value_is_no_text(value: object) -> None:
    """Flink refuses null; as a text, a directory would be called None."""
    with pytest.raises(ProgramError, match="None is no value of a setting"):
        Configuration().set("execution.checkpointing.dir", value)
