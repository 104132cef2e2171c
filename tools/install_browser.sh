#!/bin/sh
# Installs Debian's chromium for the tests of the web pages, unless there is one.
set -eu
. "$(dirname "$0")/debian.sh"

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done
install_from_debian chromium "the web pages are not tested" "the tests of the web pages"
# Without fonts a page has no text, and the pages would look like nothing.
$run apt-get install -y -qq --no-install-recommends \
    chromium fonts-dejavu-core fonts-liberation >/dev/null
