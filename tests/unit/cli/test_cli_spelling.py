"""Flink's spellings: what `flink` accepts is understood, what means nothing here is said."""

from __future__ import annotations

import pytest

from penstock.cli.report import WrongUsageError
from penstock.cli.verb import Options, checked_target, rewrite

RUN = Options(
    flags=frozenset({"-d", "--detached", "-n", "--allowNonRestoredState", "-sae"}),
    valued=frozenset({"-py", "--python", "-pym", "-pyfs", "-p", "--parallelism", "-s", "-D", "-m"}),
    runs_program=True,
)
LIST = Options(
    flags=frozenset({"-r", "-s", "-a", "--all"}),
    valued=frozenset({"-m", "-D"}),
    optional=frozenset({"-w"}),
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("-p 4 app.py", "-p 4 -- app.py"),
        ("-p4 app.py", "-p 4 -- app.py"),
        ("-p=4 app.py", "-p 4 -- app.py"),
        ("--parallelism=4 app.py", "--parallelism 4 -- app.py"),
        ("-Dkey=value app.py", "-D key=value -- app.py"),
        ("-D key=value app.py", "-D key=value -- app.py"),
        ("-Dkey=a=b app.py", "-D key=a=b -- app.py"),
        ("-D parallelism.default=2 -d app.py", "-D parallelism.default=2 -d -- app.py"),
        ("-py app.py", "-py app.py"),
        ("-py=app.py", "-py app.py"),
        ("--python=app.py -d", "--python app.py -d"),
        ("-py app.py -sae --input x -p 4", "-py app.py -sae -- --input x -p 4"),
        ("-py app.py x -p 4", "-py app.py -- x -p 4"),
        ("app.py -p 4 --detached", "-- app.py -p 4 --detached"),
        ("-d -- -strange.py", "-d -- -strange.py"),
        ("-s -odd-name app.py", "-s -odd-name -- app.py"),
        ("-pym a.b -pyfs x,y", "-pym a.b -pyfs x,y"),
    ],
)
def test_run_is_rewritten(given: str, expected: str) -> None:
    assert list(rewrite(given.split(), RUN).arguments) == expected.split()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("-r -a", "-r -a"),
        ("-ra", "-r -a"),
        ("-m host:1 -a", "-m host:1 -a"),
        ("abc -a", "abc -a"),
        ("-w -a", "-w -a"),
        ("-w=x -a", "-w x -a"),
        ("-", "-"),
    ],
)
def test_others_are_rewritten(given: str, expected: str) -> None:
    assert list(rewrite(given.split(), LIST).arguments) == expected.split()


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        ("--alll", LIST, 'Unrecognized option: --alll. Did you mean "--all"?'),
        ("-x", LIST, "Unrecognized option: -x."),
        ("--all=3", LIST, "Option --all takes no value"),
        ("--paralelism 4 app.py", RUN, 'Did you mean "--parallelism"?'),
        ("-c org.Main app.py", RUN, "-c names a Java class"),
        ("-C file:///x.jar app.py", RUN, "-C adds to a Java class path"),
        ("-yid application_1 app.py", RUN, "-yid is for YARN sessions"),
    ],
)
def test_what_is_unknown_is_refused(given: str, options: Options, text: str) -> None:
    with pytest.raises(WrongUsageError) as caught:
        rewrite(given.split(), options)
    assert text in caught.value.format_message()


def test_a_near_miss_behind_the_program_is_pointed_out() -> None:
    rewritten = rewrite(["-py", "app.py", "--paralelism", "4"], RUN)
    assert list(rewritten.arguments) == ["-py", "app.py", "--", "--paralelism", "4"]
    assert "--parallelism was meant" in rewritten.notices[0]
    assert rewrite(["-py", "app.py", "--input", "x"], RUN).notices == ()


@pytest.mark.parametrize("target", ["yarn-session", "yarn-per-job", "kubernetes-session"])
def test_flinks_clusters_are_refused_with_the_way_to_take(target: str) -> None:
    with pytest.raises(WrongUsageError, match=r"set penstock\.spark\.master"):
        checked_target(target)


def test_targets() -> None:
    assert [checked_target(target) for target in ("local", "remote", None)] == [
        "local",
        "remote",
        None,
    ]
    with pytest.raises(WrongUsageError, match='Did you mean "local"'):
        checked_target("locl")
