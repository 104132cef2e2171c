#!/bin/sh
# Installs Debian's Redis for the tests of its sink, unless there is one. Without root, or on another
# system, it says so and leaves; those tests are then skipped, with the reason.
set -eu

if command -v redis-server >/dev/null; then
    exit 0
fi

run=""
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        run="sudo -n"
    else
        echo "penstock: no Redis, and no right to install it; it is not tested" >&2
        exit 0
    fi
fi
if ! command -v apt-get >/dev/null; then
    echo "penstock: no Redis, and no apt-get to install it; it is not tested" >&2
    exit 0
fi
echo "Installing Redis for the tests of its sink" >&2
export DEBIAN_FRONTEND=noninteractive
{
    $run apt-get update -qq
    # The tests start a server of their own: the package must not start one.
    $run env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends redis-server
} >/dev/null
