#!/bin/sh
# Installs Debian's chromium for the tests of the web pages, unless there is one. Without root, or
# on another system, it says so and leaves; the tests of the pages are then skipped, with the reason.
set -eu

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done

run=""
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        run="sudo -n"
    else
        echo "penstock: no chromium, and no right to install it; the web pages are not tested" >&2
        exit 0
    fi
fi
if ! command -v apt-get >/dev/null; then
    echo "penstock: no chromium, and no apt-get to install it; the web pages are not tested" >&2
    exit 0
fi
echo "Installing chromium for the tests of the web pages"
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq
# Without fonts a page has no text, and the pages would look like nothing.
$run apt-get install -y -qq --no-install-recommends \
    chromium fonts-dejavu-core fonts-liberation >/dev/null
