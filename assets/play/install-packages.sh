#!/bin/sh
# Installs Debian packages without letting them start their services: the playground and the tests start private ones.
# Usage, as root: install-packages.sh PACKAGE…
set -eu

policy=/usr/sbin/policy-rc.d
mark='# Made by hostwright while it installs packages; removed afterwards.'

# One that is there already belongs to whoever administers this machine, unless an earlier run of ours was killed.
if [ -f "$policy" ] && grep -qxF "$mark" "$policy"; then
    rm -f "$policy"
fi
if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    # With noclobber: whoever makes one in this very moment keeps it.
    if ! (set -C && printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy") 2>/dev/null; then
        trap - EXIT
    else
        chmod 755 "$policy"
    fi
fi

export DEBIAN_FRONTEND=noninteractive
# Stale package lists are the usual reason for a failing installation; without a network the lists at hand may do.
apt-get update -q || echo "The package lists could not be updated; trying with those at hand." >&2
apt-get install -y -q --no-install-recommends "$@"
