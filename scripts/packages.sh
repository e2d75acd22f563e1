# Sourced by the other scripts: installs missing Debian/Ubuntu packages, and says so.
# need_packages PACKAGE...

need_packages() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q "install ok installed" || missing="$missing $package"
    done
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
    $as_root apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
