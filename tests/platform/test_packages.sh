#!/bin/sh
# need_packages of scripts/packages.sh on made-up machines: dpkg, dpkg-query and apt-get are scripts over a file of packages.
# May know: scripts/packages.sh.
# Must not know: the packages of this machine.
set -eu
packages=$1 # scripts/packages.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/packages.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
failed=0

command_of() { # NAME, its text on stdin
    { echo "#!/bin/sh"; cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
command_of dpkg <<END
case \$1 in
--print-architecture) echo amd64 ;;
--configure) sed -i 's/ unpacked / installed /' "$work/installed" ;;
esac
END
command_of dpkg-query <<END
for name in "\$@"; do :; done
grep "^\$name " "$work/installed"
END
command_of sudo <<END
exec "\$@"
END
# Installs what the mirror has, all or nothing, as apt does.
command_of apt-get <<END
echo "\$*" >>"$work/calls"
case " \$* " in *" update "*) exit \$(cat "$work/update-status") ;; esac
names=
for name in "\$@"; do
    case \$name in -* | install | Acquire* | DPkg*) ;; *) names="\$names \$name" ;; esac
done
for name in \$names; do
    grep -qx "\$name" "$work/mirror" || { echo "E: Unable to locate package \$name" >&2; exit 100; }
done
for name in \$names; do
    case \$name in *:*) echo "\${name%:*} installed \${name#*:}" ;; *) echo "\$name installed amd64" ;; esac >>"$work/installed"
done
END

# expect WHAT STATUS APT-CALLED WORDS PACKAGES...: on the machine of the files; WORDS must be in what is said, - for nothing said.
expect() {
    what=$1 status=$2 called=$3 words=$4
    shift 4
    : >"$work/calls"
    got=0
    PATH="$work/bin:$PATH" sh -euc '. "$0"; need_packages "$@"' "$packages" "$@" >"$work/said" 2>&1 || got=$?
    calls=no
    [ ! -s "$work/calls" ] || calls=yes
    said=yes
    if [ "$words" = - ]; then [ ! -s "$work/said" ] || said=no; else grep -qF -- "$words" "$work/said" || said=no; fi
    if [ $got = "$status" ] && [ $calls = "$called" ] && [ $said = yes ]; then
        echo "pass  $what"
    else
        echo "FAIL  $what: status $got, apt-get called: $calls, said:"
        cat "$work/said"
        failed=$((failed + 1))
    fi
}
machine() { # UPDATE-STATUS INSTALLED-LINES MIRROR-NAMES
    echo "$1" >"$work/update-status"
    printf '%b' "$2" >"$work/installed"
    printf '%b' "$3" >"$work/mirror"
}

machine 0 'a installed amd64\nb installed all\nc installed arm64\n' 'c\nd\na:arm64\n'
expect "native and for all" 0 no - a b
expect "the foreign one, and one for all" 0 no - c:arm64 b:arm64
expect "only the foreign one is there" 0 yes "missing packages: c" a c
expect "now both are" 0 no - c c:arm64
expect "only the native one is there" 0 yes "missing packages: a:arm64" a:arm64
expect "not on the mirror" 1 yes "could not install these packages, for the reasons above: d e" d e
expect "an architecture that the mirror lacks" 1 yes "need a mirror in /etc/apt that has that architecture" d:arm64
expect "nor does it say so of others" 1 yes "Unable to locate package e" e

machine 100 '' 'a\n'
expect "no new lists, but old ones" 0 yes "trying with the lists there are" a
machine 0 'a unpacked amd64\nb config-files amd64\n' 'b\n'
expect "an installation that ended early, and one removed" 0 yes "missing packages: a b" a b
machine 0 'a.b installed amd64\n' ''
expect "names are no patterns" 1 yes "could not install" 'aXb'
echo "$failed wrong"
[ $failed = 0 ]
