#!/bin/sh
# Installs Debian's Redis for the tests of its sink, unless there is one.
set -eu
. "$(dirname "$0")/debian.sh"

if command -v redis-server >/dev/null; then
    exit 0
fi
install_from_debian Redis "it is not tested" "the tests of its sink"
# The tests start a server of their own: the package must not start one.
$run env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends redis-server >/dev/null
