#!/bin/bash
# Runs a Linux x86-64 program on an emulated CPU with AVX-512: a whole machine in Bochs, on any x86-64 Debian.
# May know: apt, Bochs, how a kernel boots (guest/).  Must not know: heed.
#
#   avx512-emulation.sh [options] [--] PROGRAM [ARGUMENTS...]
#   avx512-emulation.sh [options] --prepare       only fills the cache
#   avx512-emulation.sh [options] --self-test     runs a probe of the emulated CPU
#
#   -t SECONDS       limit for the whole run (default 120)
#   -m MODEL         CPU of Bochs: sapphire_rapids (default), tigerlake, corei7_skylake_x (F CD DQ BW VL alone)
#   -M MEGABYTES     memory of the machine (default 256; 128 to 2048)
#   -e NAME=VALUE    a variable of PROGRAM's environment (repeatable; nothing else but LD_LIBRARY_PATH is passed on)
#   -f FILE[:PATH]   a file or folder to take along, to the same path or this one (repeatable)
#   -w FOLDER        PROGRAM's working directory (default /tmp)
#   -k VMLINUZ       kernel (default: that of Debian's linux-image-cloud-amd64)
#   -b BOCHS         an installed Bochs (default: that of Debian 13, fetched; else the installed one)
#   -c FOLDER        cache (default $HEED_EMULATOR_CACHE or ~/.cache/heed-emulator), about 110 MB; worth keeping in CI
#   -v               reports the time, keeps the work folder
#
# PROGRAM is an ordinary program, dynamic or static; its libraries come along.  It runs as root from a file system in
# memory, at its own absolute path, with stdin at /dev/null; stdout and stderr arrive here, and its exit status is this
# script's: 128 + N if signal N ended it, 124 at the time limit, 125 if emulator or kernel failed (the reason on stderr).
# A start takes about 5 seconds; then 100 million scalar instructions take a second, a million 512-bit FMAs half of one.
# So put many programs into one boot: -f test1 -f test2 -f all.sh /bin/sh all.sh.
#
# QEMU and Valgrind do not know AVX-512.  Bochs follows Intel's manual one instruction at a time: it finds wrong results,
# wrong masks, illegal instructions and bad tails, and says nothing about speed.  Known wrong in 3.0: VPCONFLICT, compares of
# f16.  Debian 12's 2.7 also rounds VCVTPS2PH ties wrongly and faults on some masked loads: hence 3.0, which is unpacked
# into the cache; nothing is installed.  The kernel is loaded straight into memory, without BIOS and boot loader, which
# saves ten seconds (guest/rom.S).
# Needs: apt, gcc, libc6-dev, binutils, python3, and the mirror that apt uses, once.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)/guest
newer_suite=trixie # Debian 13: Bochs 3.0

die() {
    echo "avx512-emulation: $*" >&2
    exit 125
}

limit=120 model='' memory=256 directory=/tmp kernel='' bochs='' action=run verbose=''
cache=${HEED_EMULATOR_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/heed-emulator}
pass=()
while [ $# -gt 0 ]; do
    case $1 in
    -[tmMefwkbc]) [ $# -gt 1 ] || die "$1 needs a value" ;;&
    -t) limit=$2; shift 2 ;;
    -m) model=$2; shift 2 ;;
    -M) memory=$2; shift 2 ;;
    -e) pass+=("--env=$2"); shift 2 ;;
    -f) pass+=("--file=$2"); shift 2 ;;
    -w) directory=$2; shift 2 ;;
    -k) kernel=$2; shift 2 ;;
    -b) bochs=$2; shift 2 ;;
    -c) cache=$2; shift 2 ;;
    -v) verbose=--verbose; shift ;;
    --prepare) action=prepare; shift ;;
    --self-test) action=self-test; shift ;;
    -h | --help) sed -n '2,/^set -e/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --) shift; break ;;
    -*) die "unknown option $1" ;;
    *) break ;;
    esac
done
[[ $memory =~ ^[0-9]+$ ]] && [ "$memory" -ge 128 ] && [ "$memory" -le 2048 ] || die "-M: not between 128 and 2048"
[[ $limit =~ ^[0-9.]+$ ]] || die "-t: not a number of seconds"
[ $action != run ] || [ $# -gt 0 ] || die "no program given (--help shows how)"
[ "$(uname -m)" = x86_64 ] || die "only on x86-64: the programs' libraries are those of this machine"
for tool in python3 gcc as ld; do
    command -v $tool >/dev/null || die "$tool is missing (Debian: gcc libc6-dev binutils python3)"
done

# apt with lists and state of its own in folder $1, for the newer suite of the mirror this machine already uses.
apt_elsewhere() {
    local folder=$1
    shift
    apt-get -q -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dir::State::status=/dev/null -o APT::Sandbox::User=root \
        -o Debug::NoLocking=1 -o APT::Architectures::=amd64 -o Acquire::Retries=3 "$@"
}

# Bochs of Debian 13 with the libraries it needs, in $cache/bochs.  Called as a condition, where set -e does not work.
fetch_bochs() (
    folder=$(mktemp -d "$cache/fetch.XXXXXX") || exit 1
    trap 'rm -rf "$folder"' EXIT
    mkdir -p "$folder/lists/partial" "$folder/packages" "$folder/root" "$folder/out/lib" "$folder/out/plugins" || exit 1
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/*$' | head -n 1)
    [ -n "$mirror" ] || { echo "apt uses no Debian mirror here"; exit 1; }
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $newer_suite main" >"$folder/sources.list"
    apt_elsewhere "$folder" -o APT::Update::Error-Mode=any update || exit 1
    # bochs-term only satisfies a dependency on some display, without pulling in a graphical one.
    packages=$(apt_elsewhere "$folder" -s install --no-install-recommends bochs bochs-term | awk '/^Inst (lib|bochs)/{print $2}')
    [ -n "$packages" ] || exit 1
    # shellcheck disable=SC2086
    (cd "$folder/packages" && apt_elsewhere "$folder" download $packages) || exit 1
    for package in "$folder"/packages/*.deb; do
        dpkg-deb -x "$package" "$folder/root" || exit 1
    done
    collect_bochs "$folder/root" "$folder/out" || exit 1
    rm -rf "$cache/bochs"
    mv "$folder/out" "$cache/bochs"
)

# From the unpacked packages $1: the program, its plugins, its loader and just the libraries they load, into $2.
collect_bochs() {
    local libraries=$1/usr/lib/x86_64-linux-gnu loader=ld-linux-x86-64.so.2 object library
    cp "$1/usr/bin/bochs-bin" "$libraries/$loader" "$2/" || return 1
    cp "$libraries"/bochs/plugins/*.so "$2/plugins/" || return 1
    for object in "$2/bochs-bin" "$2"/plugins/*.so; do
        "$libraries/$loader" --library-path "$libraries" --list "$object"
    done | awk -v folder="$libraries/" 'index($3, folder) == 1 {print $3}' | sort -u | while read -r library; do
        cp "$library" "$2/lib/"
    done
    LTDL_LIBRARY_PATH=$2/plugins "$2/$loader" --library-path "$2/lib" "$2/bochs-bin" --help cpu 2>&1 | grep sapphire_rapids
}

choose_bochs() {
    local log=$cache/bochs.log
    if [ -n "$bochs" ]; then
        command -v "$bochs" >/dev/null || die "-b: there is no $bochs"
    elif [ -x "$cache/bochs/bochs-bin" ] || fetch_bochs >"$log" 2>&1 9>&-; then
        bochs=cached
    elif command -v bochs >/dev/null; then
        bochs=bochs
        echo "avx512-emulation: could not fetch Debian 13's Bochs ($log); using the installed one" >&2
    else
        tail -n 5 "$log" >&2
        die "could not fetch Debian 13's Bochs ($log), and none is installed (Debian: bochs bochs-term)"
    fi
    if [ "$bochs" = cached ]; then : "${model:=sapphire_rapids}"; else : "${model:=tigerlake}"; fi
}

kernel_package() {
    apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image-/{print $2; exit}'
}

fetch_kernel() {
    local folder package
    folder=$(mktemp -d "$cache/fetch.XXXXXX")
    package=$(kernel_package)
    if [ -z "$package" ] && [ "$(id -u)" = 0 ]; then # a new machine has no lists yet
        apt-get -qq update >"$cache/kernel.log" 2>&1 || true
        package=$(kernel_package)
    fi
    [ -n "$package" ] || die "apt knows no linux-image-cloud-amd64 (apt-get update?)"
    (cd "$folder" && apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=3 download "$package") >"$cache/kernel.log" 2>&1 ||
        die "could not fetch $package ($cache/kernel.log: $(tail -n 1 "$cache/kernel.log"))"
    dpkg-deb --fsys-tarfile "$folder"/*.deb | tar -x -C "$folder" --wildcards './boot/vmlinuz-*' &&
        mv "$folder"/boot/vmlinuz-* "$cache/vmlinuz" || die "could not unpack $package"
    rm -rf "$folder"
}

# init and rom, made anew when their sources change.
build_guest() {
    local stamp
    stamp=$(cat "$here/init.c" "$here/rom.S" | sha256sum | cut -c 1-16)
    [ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ] || return 0
    gcc -std=gnu11 -O2 -Wall -Wextra -static "$here/init.c" -o "$cache/init.new" || die "could not compile init.c"
    as --32 "$here/rom.S" -o "$cache/rom.o" && ld -m elf_i386 -Ttext 0xffff0000 --oformat binary "$cache/rom.o" \
        -o "$cache/rom.new" || die "could not assemble rom.S"
    mv "$cache/init.new" "$cache/init"
    mv "$cache/rom.new" "$cache/rom"
    rm -f "$cache/rom.o"
    echo "$stamp" >"$cache/stamp"
}

mkdir -p "$cache" || die "-c: cannot make $cache"
cache=$(cd "$cache" && pwd)
exec 9>"$cache/lock"
flock 9
rm -rf "$cache"/fetch.* # of runs that were ended while they fetched
choose_bochs
[ -n "$kernel" ] || [ -s "$cache/vmlinuz" ] || fetch_kernel
kernel=${kernel:-$cache/vmlinuz}
build_guest
exec 9>&-

work=$(mktemp -d "${TMPDIR:-/tmp}/avx512-emulation.XXXXXX")
if [ -n "$verbose" ]; then
    echo "avx512-emulation: work folder $work" >&2
else
    trap 'rm -rf "$work"' EXIT
fi
case $action in
prepare) set -- ;;
self-test)
    gcc -O1 -ffp-contract=off -Wall -Wextra "$here/probe.c" -o "$work/probe" -lm || die "could not compile probe.c"
    set -- "$work/probe"
    ;;
esac

python3 -B "$here/boot.py" --cache="$cache" --work="$work" --kernel="$kernel" --bochs="$bochs" --model="$model" \
    --memory="$memory" --limit="$limit" --directory="$directory" $verbose ${pass[@]+"${pass[@]}"} -- "$@" &
child=$!
trap 'kill -TERM $child 2>/dev/null || true' INT TERM HUP
status=0
while :; do # a signal ends wait early
    status=0
    wait $child || status=$?
    kill -0 $child 2>/dev/null || break
done
if [ $action = self-test ]; then
    [ $status = 42 ] || { echo "self-test FAILED (status $status)"; exit 1; }
    echo "self-test passed"
    exit 0
fi
exit $status
