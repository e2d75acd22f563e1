#!/bin/sh
# Runs a program of heed on an emulated old x86 CPU: it must choose the expected backend, not fault, give the same bits.
# May know: qemu's user-mode emulator, the first line of the test programs, `heed info` and `heed verify`.
# Must not know: what the programs test.
#
# usage: run_old_cpu.sh EMULATOR CPU BACKEND test PROGRAM [ARGUMENT...]    a test program on its thinned tables
#        run_old_cpu.sh EMULATOR CPU BACKEND plain PROGRAM [ARGUMENT...]   a program that says nothing of backends
#        run_old_cpu.sh EMULATOR CPU BACKEND info HEED                     what it chooses
#        run_old_cpu.sh EMULATOR CPU BACKEND verify HEED NATIVE.json       its bits against those of this machine
# Exit status: 0 all well, 1 not, 77 no emulator but HEED_ALLOW_MISSING_EMULATOR=1.
set -u

fail() {
    echo "FAIL: $cpu: $*"
    exit 1
}

if [ $# -lt 5 ]; then
    sed -n '6,10s/^# //p' "$0"
    exit 2
fi
emulator=$1 cpu=$2 backend=$3 what=$4 program=$5
shift 5
unset HEED_ISA
if ! command -v "$emulator" >/dev/null 2>&1; then
    echo "the emulator '$emulator' is missing (Debian: qemu-user-static): $cpu was NOT tested"
    [ "${HEED_ALLOW_MISSING_EMULATOR:-}" = 1 ] && exit 77
    echo "FAIL: set HEED_ALLOW_MISSING_EMULATOR=1 to skip the tests of old CPUs"
    exit 1
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Runs the program, its output in $work/out.  A signal shows as a status above 128.  Threads that wait must not spin:
# the emulated ones outnumber the processors.
emulate() {
    HEED_TEST_QUICK=1 OMP_WAIT_POLICY=passive "$emulator" -cpu "$cpu" "$@" >"$work/out" 2>"$work/err"
    status=$?
    grep -v "TCG doesn't support requested feature" "$work/err"
    [ "$status" -gt 128 ] && cat "$work/out" && fail "$* was ended by signal $((status - 128))"
    [ "$status" -ne 0 ] && cat "$work/out" && fail "$* ended with status $status"
}

case $what in
test)
    emulate "$program" "$@"
    cat "$work/out"
    # "test_x: seed 1, THINNED (HEED_TEST_QUICK) tables, backends scalar avx2": the best one comes last.
    last=$(sed -n 's/.*: seed .* tables, backends.* \([a-z0-9]*\)$/\1/p' "$work/out")
    [ "$last" = "$backend" ] || fail "the best backend is '$last', must be $backend"
    grep -q 'THINNED' "$work/out" || fail "the tables are not thinned: too long for an emulator"
    grep -q '^[1-9][0-9]* passed, 0 failed$' "$work/out" || fail "nothing passed"
    ;;
plain)
    emulate "$program" "$@"
    cat "$work/out"
    ;;
info)
    emulate "$program" info
    cat "$work/out"
    grep -q "[ ]$backend  *compiled, usable, chosen: " "$work/out" || fail "$backend was not chosen"
    [ "$(grep -c 'chosen: ' "$work/out")" = 1 ] || fail "more than one backend was chosen"
    ;;
verify)
    emulate "$program" verify --quick --write "$work/old.json"
    tail -n 3 "$work/out"
    # One case a line: {"name": "x", "fingerprint": "0123456789abcdef"}.  What this machine computed, the old one must
    # have computed too, except for SLEEF's exp where there is no FMA.
    awk -F'"' -v cpu="$cpu" '
        $2 != "name" { next }
        NR == FNR { native[$4] = $8; count++; next }
        { seen++ }
        !($4 in native) { print "FAIL: " $4 " is not in the other file"; bad++; next }
        native[$4] == $8 { if ($8 != "not run") same++; next }
        $8 == "not run" && $4 ~ /:sleef$/ { left++; next }
        { print "FAIL: " cpu ": " $4 ": " $8 ", on this machine " native[$4]; bad++ }
        END {
            print same + 0 " cases have the same bits, " left + 0 " with SLEEF cannot run, " bad + 0 " differ"
            exit bad > 0 || same < 40 || seen != count
        }' "$1" "$work/old.json" || fail "other bits than on this machine, or too few cases"
    ;;
*)
    fail "what is '$what'?"
    ;;
esac
echo "$cpu: $backend"
