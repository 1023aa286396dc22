#!/bin/sh
# Install the servers that the tests and benches start privately: Redis, RabbitMQ and MariaDB.
# None of them is left running as a service.
#
#   deploy/install-servers.sh [--with-wrk]
#
# exit 0: all is there · 1: the installation failed · 2: cannot install here, says what to do

set -eu

POLICY=/usr/sbin/policy-rc.d
POLICY_MARK='# written by redpacket install-servers.sh'
POLICY_KEPT=$POLICY.redpacket-kept
WITH_WRK=no

usage() {
    echo "usage: $0 [--with-wrk]" >&2
    exit 2
}

for argument in "$@"; do
    case $argument in
        --with-wrk) WITH_WRK=yes ;;
        *) usage ;;
    esac
done

# Servers live where an ordinary user's PATH does not reach.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/lib/rabbitmq/bin

has() { command -v "$1" >/dev/null 2>&1; }

missing_packages() {
    has redis-server || echo redis-server
    { has rabbitmq-server && has rabbitmqctl && has epmd; } || echo rabbitmq-server
    { has mariadbd && has mariadb-install-db; } || echo mariadb-server
    if [ "$WITH_WRK" = yes ]; then has wrk || echo wrk; fi
}

explain() {
    echo "Missing here: $*." >&2
    echo "This script installs Debian and Ubuntu packages, as root or with passwordless sudo." >&2
    echo "Please install with your own package manager:" >&2
    for package in "$@"; do
        case $package in
            redis-server) echo "  - Redis 7.0 or later: the program redis-server" ;;
            rabbitmq-server) echo "  - RabbitMQ 3.10 or later: rabbitmq-server, rabbitmqctl, epmd" ;;
            mariadb-server) echo "  - MariaDB 10.11 or later: mariadbd, mariadb-install-db" ;;
            wrk) echo "  - wrk 4: the program wrk (for 'make bench' only)" ;;
        esac >&2
    done
    echo "Nothing has to be started: the tests start servers of their own on free ports." >&2
    exit 2
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    has apt-get && { [ "$(id -u)" -eq 0 ] || { has sudo && sudo -n true 2>/dev/null; }; }
}

# Package scripts ask policy-rc.d before they start a service; 101 means no.
forbid_service_starts() {
    if as_root test -e "$POLICY" && ! as_root grep -qF "$POLICY_MARK" "$POLICY"; then
        as_root mv "$POLICY" "$POLICY_KEPT"
    fi
    printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" | as_root tee "$POLICY" >/dev/null
    as_root chmod 755 "$POLICY"
}

allow_service_starts_again() {
    if as_root grep -qsF "$POLICY_MARK" "$POLICY"; then as_root rm -f "$POLICY"; fi
    if as_root test -e "$POLICY_KEPT"; then as_root mv "$POLICY_KEPT" "$POLICY"; fi
}

MISSING=$(missing_packages | tr '\n' ' ')
if [ -z "$MISSING" ]; then
    exit 0
fi
# Package names have no spaces: splitting them is wanted, here and below.
# shellcheck disable=SC2086
may_install || explain $MISSING

echo "Installing: $MISSING"
trap allow_service_starts_again EXIT
trap 'exit 1' HUP INT TERM
forbid_service_starts
as_root apt-get update -q || exit 1
# shellcheck disable=SC2086
as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends $MISSING || exit 1

MISSING=$(missing_packages | tr '\n' ' ')
if [ -n "$MISSING" ]; then
    echo "Still missing after the installation: $MISSING" >&2
    exit 1
fi
