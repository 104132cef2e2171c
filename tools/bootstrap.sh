#!/bin/sh
# Makes .venv and installs what the lock file names, so that every make target works on a machine
# that has only git, make, Python and Java. A missing one is named in one sentence.
#
# 1. find git, Python >= 3.11 and Java >= 17, or say how to get them;
# 2. create .venv unless it exists;
# 3. install requirements-dev.lock (hashes checked) with uv if there is one, else with pip;
# 4. install penstock itself in editable form.
#
# A shell script, because the first thing that may be missing is Python.
set -eu

give_up() {
    echo "penstock: $1" >&2
    exit 1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

check_java() {
    java=java
    [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
    # The first line reads: openjdk version "17.0.15" 2025-04-15 (before Java 9: "1.8.0_392").
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
    [ -n "$version" ] || give_up "Java was not found as '$java': Spark needs Java 17 or newer;\
 install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
    [ "$version" -ge 17 ] || give_up "'$java' is Java $version, but Spark needs Java 17 or newer:\
 install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME."
}

cd "$(dirname "$0")/.."

command -v git >/dev/null || give_up "git was not found: install it\
 (Debian, Ubuntu: apt-get install git)."
python=$(find_python)
[ -n "$python" ] || give_up "Python 3.11 or newer was not found: install one\
 (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3."
check_java

[ "${1:-}" != "--check" ] || exit 0

if [ ! -x .venv/bin/python ]; then
    echo "Creating .venv with $("$python" --version)"
    "$python" -m venv .venv || give_up "'$python -m venv' failed, see above: the venv module is\
 probably missing (Debian, Ubuntu: apt-get install python3-venv)."
fi

echo "Installing requirements-dev.lock into .venv (about a minute the first time)"
if command -v uv >/dev/null; then
    install="uv pip install --quiet --python .venv/bin/python"
else
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    install=".venv/bin/python -m pip install --quiet --disable-pip-version-check"
fi
$install --require-hashes -r requirements-dev.lock
# hatchling comes from the lock file, so building needs nothing further.
$install --no-deps --no-build-isolation --editable .
