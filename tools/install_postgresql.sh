#!/bin/sh
# Installs Debian's PostgreSQL for the tests of the database connector, unless there is one. Without
# root, or on another system, it says so and leaves; those tests are then skipped, with the reason.
set -eu

if command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    exit 0
fi

run=""
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        run="sudo -n"
    else
        echo "penstock: no PostgreSQL, and no right to install it; it is not tested" >&2
        exit 0
    fi
fi
if ! command -v apt-get >/dev/null; then
    echo "penstock: no PostgreSQL, and no apt-get to install it; it is not tested" >&2
    exit 0
fi
echo "Installing PostgreSQL for the tests of the database connector" >&2
export DEBIAN_FRONTEND=noninteractive
# The tests start a server of their own: the package must not start one.
{
    $run apt-get update -qq
    $run apt-get install -y -qq --no-install-recommends postgresql-common
    echo "create_main_cluster = false" | $run tee -a /etc/postgresql-common/createcluster.conf
    $run apt-get install -y -qq --no-install-recommends postgresql
} >/dev/null
