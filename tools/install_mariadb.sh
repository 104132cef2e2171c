#!/bin/sh
# Installs Debian's MariaDB for the tests of the database connector, unless there is one.
set -eu
. "$(dirname "$0")/debian.sh"

if command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ]; then
    exit 0
fi
install_from_debian MariaDB "it is not tested" "the tests of the database connector"
# The tests start a server of their own; this package has the program without a service.
$run apt-get install -y -qq --no-install-recommends \
    mariadb-server-core mariadb-client-core >/dev/null
