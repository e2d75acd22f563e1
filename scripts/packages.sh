# Sourced by the other scripts: installs missing Debian/Ubuntu packages, and says so.
# need_packages PACKAGE...     a name may end with :ARCHITECTURE

# Of a foreign architecture only the packages that say so: libx:arm64 does not stand for libx, nor the other way round.  What was
# unpacked and not configured, by an installation that ended early, is not installed.
package_installed() {
    case $1 in
    *:*) architecture=${1##*:} ;;
    *) architecture=$(dpkg --print-architecture) ;;
    esac
    dpkg-query -W -f='${Package} ${db:Status-Status} ${Architecture}\n' "${1%%:*}" 2>/dev/null |
        grep -Fqx -e "${1%%:*} installed $architecture" -e "${1%%:*} installed all"
}

missing_packages() {
    for package in "$@"; do
        package_installed "$package" || printf ' %s' "$package"
    done
}

need_packages() {
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "$0: these packages are missing and there is no apt-get to install them:$missing" >&2
        return 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
    fi
    echo "== installing missing packages:$missing"
    # Finishes what an earlier run could not; apt itself goes on with what it has downloaded in part.
    $as_root dpkg --configure -a >/dev/null || true
    # shellcheck disable=SC2086
    missing=$(missing_packages $missing)
    [ -n "$missing" ] || return 0
    options="-qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300"
    # Lists of an architecture or a mirror may fail and the rest do: the installation decides.
    # shellcheck disable=SC2086
    $as_root apt-get $options update >&2 || echo "$0: apt-get update failed; trying with the lists there are" >&2
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get $options install -y --no-install-recommends $missing >/dev/null || true
    # shellcheck disable=SC2086
    missing=$(missing_packages $missing)
    [ -n "$missing" ] || return 0
    echo "$0: could not install these packages, for the reasons above:$missing" >&2
    case $missing in
    *:*) echo "$0: names with :ARCHITECTURE need a mirror in /etc/apt that has that architecture, and network" >&2 ;;
    esac
    return 1
}
