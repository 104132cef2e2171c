#!/bin/sh
# Installs Debian's PostgreSQL for the tests of the database connector, unless there is one.
set -eu
. "$(dirname "$0")/debian.sh"

if command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    exit 0
fi
install_from_debian PostgreSQL "it is not tested" "the tests of the database connector"
# The tests start a server of their own: the package must not start one.
{
    $run apt-get install -y -qq --no-install-recommends postgresql-common
    echo "create_main_cluster = false" | $run tee -a /etc/postgresql-common/createcluster.conf
    $run apt-get install -y -qq --no-install-recommends postgresql
} >/dev/null
