"""The files in `deploy/`, as far as they can be checked without Docker and Kubernetes.

Schemas are those of the projects: Kubernetes by the package `kubernetes-validate`, Compose by
`compose-spec.json`. What the processes do is run: the wheel of the image is built as its Dockerfile
does, and its entry point is called.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml

from penstock.cli.main import VERBS
from penstock.core.config_file import load_file
from penstock.core.configuration import Configuration
from penstock.core.options import canonical_key, remark

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ACTIONS = {name for section in VERBS.values() for name in section}
MANIFESTS = [
    pytest.param(document, id=f"{path.stem}-{document['kind']}")
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def check_settings(settings: dict[str, str]) -> None:
    """Every key is one that Penstock, or Spark behind it, reads."""
    for key in settings:
        assert not remark(canonical_key(key)), (key, remark(canonical_key(key)))


def check_command(arguments: list[str]) -> None:
    """The image's entry point knows the action; its settings have a meaning."""
    assert arguments[0] in ACTIONS | {"spark-master", "spark-worker"}
    pairs = [arguments[at + 1] for at, each in enumerate(arguments) if each == "-D"]
    check_settings(dict(pair.split("=", 1) for pair in pairs))


# -- Kubernetes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("document", MANIFESTS)
@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_manifests_are_what_kubernetes_reads(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def containers() -> list[dict[str, Any]]:
    specs = [each.values[0].get("spec", {}).get("template") for each in MANIFESTS]
    return [container for spec in specs if spec for container in spec["spec"]["containers"]]


@pytest.mark.parametrize("container", containers(), ids=lambda each: each["args"][-1])
def test_containers_run_actions_with_settings_that_exist(container: dict[str, Any]) -> None:
    check_command(container["args"])
    assert container["resources"]["limits"]["memory"]
    named = {each["name"] for each in container.get("env", ())}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) <= named


def test_the_schema_finds_what_is_wrong() -> None:
    deployment = next(each.values[0] for each in MANIFESTS if each.values[0]["kind"] == "Job")
    wrong = {**deployment, "spec": {**deployment["spec"], "replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_settings_in_manifests_are_a_configuration(tmp_path: Path) -> None:
    maps = [each.values[0] for each in MANIFESTS if each.values[0]["kind"] == "ConfigMap"]
    assert maps
    for document in maps:
        path = tmp_path / "config.yaml"
        path.write_text(document["data"]["config.yaml"])
        configuration = Configuration()
        load_file(path, configuration)
        check_settings(configuration.to_dict())


# -- Compose and systemd --------------------------------------------------------------------------


def test_the_composition_is_what_compose_reads(tmp_path: Path) -> None:
    schema = json.loads(Path(__file__).with_name("compose-spec.json").read_text())
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    jsonschema_rs.validator_for(schema).validate(document)
    own = [each for each in document["services"].values() if each["image"] == "penstock"]
    assert len(own) == 3
    for service in own:
        check_command(service["command"])
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    mounted = DEPLOY / document["services"]["jobmanager"]["volumes"][0].partition(":")[0]
    configuration = Configuration()
    load_file(mounted, configuration)
    check_settings(configuration.to_dict())
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validator_for(schema).validate({**document, "service": {}})


@pytest.mark.parametrize("unit", sorted((DEPLOY / "systemd").iterdir()), ids=lambda unit: unit.name)
def test_units_are_what_systemd_reads(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    start = re.search(r"^ExecStart=(.+)$", text, re.M)
    assert start is not None
    program, *arguments = shlex.split(start[1])
    check_command(arguments)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    name = unit.name.replace("@", "@orders")
    # A link, since the path of the interpreter may have blanks.
    (tmp_path / "penstock").symlink_to(sys.executable)
    (tmp_path / name).write_text(text.replace(program, str(tmp_path / "penstock")))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert unit.name.partition("@")[0] not in done.stderr, done.stderr


# -- the image ------------------------------------------------------------------------------------


def test_the_dockerfile_names_what_is_there() -> None:
    copied = re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", DOCKERFILE, re.M)
    for source in " ".join(copied).split():
        assert (ROOT / source).exists(), source
    extras = re.search(r"\.whl\)\[([\w,]+)\]", DOCKERFILE)
    assert extras is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The wheel, built of what the Dockerfile copies, and an environment that finds it first."""
    directory = tmp_path_factory.mktemp("image")
    source = directory / "src"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    site, home = directory / "site", directory / "home"
    home.mkdir()
    uv = str(Path(sys.executable).with_name("uv"))
    for command in (
        [uv, "build", "--quiet", "--wheel", "--no-build-isolation", "-o", directory, source],
        [uv, "pip", "install", "--quiet", "--no-deps", "--target", site, directory / "*.whl"],
    ):
        if command[-1] == directory / "*.whl":
            command[-1] = next(directory.glob("*.whl"))
        arguments = [str(each) for each in (*command, "--offline", "--python", sys.executable)]
        subprocess.run(arguments, check=True)
    binaries = directory / "bin"
    binaries.mkdir()
    (binaries / "python3").symlink_to(sys.executable)
    return {
        "PATH": f"{site / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(site),
        "HOME": str(home),
    }


def entry_point(image: dict[str, str], *arguments: str, **environment: str) -> str:
    """Runs the image's entry point; returns what it prints."""
    done = subprocess.run(
        ["sh", str(DEPLOY / "entrypoint.sh"), *arguments],
        env={**image, **environment},
        capture_output=True,
        text=True,
        cwd=image["HOME"],
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_entry_point_runs_actions(image: dict[str, str]) -> None:
    assert "Version: " in entry_point(image, "-v")
    token = "t" * 40
    entry_point(image, "-v", PENSTOCK_REST_TOKEN=token, PENSTOCK_DATA=image["HOME"])
    path = Path(image["HOME"], "token")
    assert path.read_text() == f"{token}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_entry_point_runs_an_application(image: dict[str, str]) -> None:
    program = Path(image["HOME"], "app.py")
    program.write_text(
        "import penstock\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "print('from', penstock.__path__[0])\n"
        "env.from_collection([1, 2]).map(lambda value: value * 21).print()\n"
        "env.execute('app')\n"
    )
    settings = ("--port", "0", "-D", "penstock.spark.master=in-process")
    said = entry_point(image, "run-application", *settings, str(program))
    assert f"from {image['PYTHONPATH']}" in said
    assert "42" in said.splitlines()
    assert "Program execution finished" in said


def test_the_entry_point_runs_parts_of_spark(image: dict[str, str]) -> None:
    """Java is asked for its arguments only; Spark's own names are looked for in its jars."""
    fake = Path(image["HOME"], "fake")
    fake.mkdir()
    java = fake / "java"
    java.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    java.chmod(0o755)
    path = {"PATH": f"{fake}:{image['PATH']}"}
    given = {
        "SPARK_EXECUTOR_MEMORY": "1g",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "orders-exec-3",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
        "SPARK_JAVA_OPT_1": "-Dwith=a blank",
    }
    said = entry_point(image, "executor", **given, **path).splitlines()
    assert said[:4] == [given["SPARK_JAVA_OPT_0"], given["SPARK_JAVA_OPT_1"], "-Xms1g", "-Xmx1g"]
    backend = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert said[said.index(backend) :][1:5] == [
        "--driver-url",
        given["SPARK_DRIVER_URL"],
        "--executor-id",
        "3",
    ]
    import pyspark

    jars = Path(pyspark.__path__[0], "jars")
    assert f"{jars}/*" in said[said.index("-cp") + 1]
    jar = next(jars.glob("spark-kubernetes_2.13-*.jar"))
    assert backend.replace(".", "/").encode() in jar.read_bytes()


@pytest.mark.spark
def test_masters_and_workers_start(image: dict[str, str]) -> None:
    assert "--webui-port" in entry_point(image, "spark-master", "--help")
    assert "--cores" in entry_point(image, "spark-worker", "--help")
