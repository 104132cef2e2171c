#!/bin/sh
# install_jars.sh NAME: copies the jars of the server of tools/NAME/pom.xml into .bench/NAME, with
# Maven, for the tests against it: `kafka`, also for `make demo-kafka`, `hdfs`, `yarn` and `opensearch`. What
# cannot be had is named in one sentence.
set -eu

cd "$(dirname "$0")/.."
name=$1
wanted=tools/$name/pom.xml
target=.bench/$name

# The copy of the pom is written last: it says that all jars of exactly this pom are there.
if cmp -s "$wanted" "$target/pom.xml"; then
    exit 0
fi
if ! command -v java >/dev/null; then
    echo "penstock: no Java, which the $name server needs; install one (Debian, Ubuntu:\
 apt-get install openjdk-17-jre-headless)" >&2
    exit 1
fi
if ! command -v mvn >/dev/null && [ -n "${PENSTOCK_NEEDS_JARS:-}" ] && [ "$(id -u)" = 0 ] &&
    command -v apt-get >/dev/null; then
    echo "Installing Maven" >&2
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends maven; } >&2
fi
if ! command -v mvn >/dev/null; then
    echo "penstock: no Maven to fetch the $name server with; install it (Debian, Ubuntu:\
 apt-get install maven)" >&2
    exit 1
fi
echo "Fetching the $name server into $target" >&2
mkdir -p .bench
new=$(mktemp -d ".bench/$name.XXXXXX")
trap 'rm -rf "$new"' EXIT
if ! mvn --quiet --batch-mode --file "$wanted" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
    "-DoutputDirectory=$PWD/$new" >&2; then
    echo "penstock: Maven could not fetch the $name server, see above" >&2
    exit 1
fi
cp "$wanted" "$new/pom.xml"
rm -rf "$target"
# Another process may have been faster, with the same files.
mv -T "$new" "$target" 2>/dev/null || [ -f "$target/pom.xml" ]
