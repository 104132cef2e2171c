#!/bin/sh
# Installs Debian's MariaDB for the tests of the database connector, unless there is one. Without
# root, or on another system, it says so and leaves; those tests are then skipped, with the reason.
set -eu

if command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ]; then
    exit 0
fi

run=""
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        run="sudo -n"
    else
        echo "penstock: no MariaDB, and no right to install it; it is not tested" >&2
        exit 0
    fi
fi
if ! command -v apt-get >/dev/null; then
    echo "penstock: no MariaDB, and no apt-get to install it; it is not tested" >&2
    exit 0
fi
echo "Installing MariaDB for the tests of the database connector" >&2
export DEBIAN_FRONTEND=noninteractive
# The tests start a server of their own; this package has the program without a service.
{
    $run apt-get update -qq
    $run apt-get install -y -qq --no-install-recommends mariadb-server-core mariadb-client-core
} >/dev/null
