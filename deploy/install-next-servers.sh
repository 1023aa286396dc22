#!/bin/sh
# Fetch the next versions of the servers that the tests start privately: MySQL 9, Redis 8 and
# RabbitMQ 4, from Debian unstable. They are unpacked into .next-servers/root, where programs run
# with that folder as their root; the machine keeps the versions it has.
#
#   deploy/install-next-servers.sh
#
# exit 0: all is there · 1: the installation failed · 2: cannot install here, says what to do

set -eu

SERVERS='mysql-server-core redis-server rabbitmq-server'
# What their programs and scripts call; base-files has the folders' links, and comes first.
AROUND='base-files coreutils dash grep libc-bin mawk sed'
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

FOLDER=$(cd "$(dirname "$0")/.." && pwd -P)/.next-servers
ROOT=$FOLDER/root
APT=$FOLDER/apt
MARK=$FOLDER/complete
WANTED="$SERVERS $AROUND in $ROOT"

explain() {
    echo "$1" >&2
    echo "MySQL 9, Redis 8 and RabbitMQ 4 come from Debian unstable here, with the machine's own" >&2
    echo "apt: this needs Debian, and root or passwordless sudo. 'make test' runs without them." >&2
    exit 2
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_be_root() {
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

known_mirror() {
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian //p' | head -n 1
}

# Apt's own lists say where the packages come from; a fresh image has none yet.
mirror() {
    if [ -z "$(known_mirror)" ]; then as_root apt-get update -q >&2; fi
    known_mirror
}

# An apt that knows nothing but unstable and believes that nothing is installed.
unstable() {
    APT_CONFIG=$APT/apt.conf DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

prepare_apt() {
    mkdir -p "$APT/lists/partial" "$APT/cache/archives/partial"
    : >"$APT/status"
    echo "deb [signed-by=$KEYRING] $1 unstable main" >"$APT/sources.list"
    cat >"$APT/apt.conf" <<END
Dir::State "$APT";
Dir::State::Lists "$APT/lists";
Dir::State::Status "$APT/status";
Dir::Cache "$APT/cache";
Dir::Etc::SourceList "$APT/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
APT::Sandbox::User "root";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
END
}

# Unpacked only: no script of a package runs, so what scripts would make is made here.
unpack() {
    mkdir -p "$ROOT"
    dpkg-deb -x "$APT"/cache/archives/base-files_*.deb "$ROOT"
    for package in "$APT"/cache/archives/*.deb; do
        dpkg-deb -x "$package" "$ROOT"
    done
    ln -s mawk "$ROOT/usr/bin/awk"
    echo "root:x:0:0:root:/root:/bin/sh" >"$ROOT/etc/passwd"
    echo "root:x:0:" >"$ROOT/etc/group"
    as_root mknod -m 666 "$ROOT/dev/null" c 1 3
    as_root mknod -m 666 "$ROOT/dev/urandom" c 1 9
    # The folder's own name, from inside too: a path means the same on both sides.
    mkdir -p "$ROOT$FOLDER"
    ln -s -r "$ROOT" "$ROOT$ROOT"
}

if [ "$(cat "$MARK" 2>/dev/null)" = "$WANTED" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || [ ! -e "$KEYRING" ]; then explain "This is not Debian."; fi
may_be_root || explain "You are not root, nor does sudo make you root without a password."
MIRROR=$(mirror)
[ -n "$MIRROR" ] || explain "apt names no mirror of Debian."

echo "Fetching MySQL 9, Redis 8 and RabbitMQ 4 into .next-servers"
as_root rm -rf "$FOLDER"
prepare_apt "$MIRROR"
unstable update -q || exit 1
# Package names have no spaces: splitting them is wanted.
# shellcheck disable=SC2086
unstable install -y -q --download-only --no-install-recommends $SERVERS $AROUND || exit 1
unpack
rm -rf "$APT"
echo "$WANTED" >"$MARK"
