#!/bin/bash
# Runs the tests that matter to the AVX-512 backend on an emulated CPU, all in one boot, and says how each ended.
# May know: names of heed's tests, what their reports look like.  Must not know: how the emulator works.
#
#   avx512-tests.sh BUILD [-m MODEL] [options of avx512-emulation.sh]
#
# BUILD is a finished x86-64 build with tests and tools.  Prints a line for each program, "pass" or "FAIL" first, the end
# of the report of what failed, and "N passed, M failed" at the end; exit status 1 if anything failed.
# A program counts as passed if it ends with 0 and says that the AVX-512 backend ran.  The tests thin their tables
# (HEED_TEST_QUICK); `heed verify` runs all cases of the golden file, on this backend alone.
# A boot of its own, before, shows that heed chooses AVX-512 on a CPU with no more of it than F, CD, DQ, BW and VL.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
[ $# -gt 0 ] && [ -d "$1" ] || { sed -n '2,/^set -e/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift

# Relative to the build folder, with arguments.  Guarded pages show a masked load or store that reaches too far.
programs=(
    "tools/heed verify --isa avx512 --check $source/tests/golden/fingerprints.json"
    "tests/test_kernels"
    "tests/test_kernels_rows"
    "tests/test_kernels_storage"
    "tests/test_kernels_few"
    "tests/test_kernels_chains"
    "tests/test_exp"
    "tests/test_softmax"
    "tests/test_linear"
    "tests/test_attention tails"
    "tests/test_attention heads"
    "tests/masks/test_masks"
    "tests/masks/test_merge"
    "tests/masks/test_rope"
    "tests/reference/test_reference"
    "tests/reference/test_minilm"
)

work=$(mktemp -d "${TMPDIR:-/tmp}/avx512-tests.XXXXXX")
trap 'rm -rf "$work"' EXIT

# In the emulated machine there is a shell, and nothing else but the programs.
cat >"$work/all.sh" <<'END'
# The last 60 lines of a file.
show() {
    lines=0
    while IFS= read -r line; do lines=$((lines + 1)); done <"$1"
    while IFS= read -r line; do
        [ $lines -gt 60 ] || printf '%s\n' "$line"
        lines=$((lines - 1))
    done <"$1"
}
seconds() {
    read -r up idle </proc/uptime
    echo "${up%.*}"
}
# Runs one program and judges it by its report.
one() {
    begin=$(seconds) ran=no last=
    "$@" >/tmp/report 2>&1
    status=$?
    while IFS= read -r line; do
        case $line in *backends*avx512*) ran=yes ;; esac
        last=${line:-$last}
    done </tmp/report
    if [ $status = 0 ] && [ $ran = yes ]; then
        echo "pass  $* ($(($(seconds) - begin)) emulated s): $last"
    else
        echo "FAIL  $*: exit status $status, AVX-512 backend ran: $ran"
        show /tmp/report
    fi
}
END
files=()
for program in "${programs[@]}"; do
    name=${program%% *}
    [ -x "$build/$name" ] || { echo "avx512-tests.sh: $build/$name is missing; build tests and tools first" >&2; exit 1; }
    files+=(-f "$build/$name")
    echo "one $program" >>"$work/all.sh"
done
echo true >>"$work/all.sh"
# What the tests read: the paths are compiled in.
for data in tests/golden tests/reference examples/data; do
    files+=(-f "$source/$data")
done

smallest() {
    "$here/avx512-emulation.sh" "$@" -m corei7_skylake_x "$build/tools/heed" info --json >"$work/info" 2>&1 &&
        grep -q '"chosen": "avx512"' "$work/info"
}
if smallest "$@"; then
    echo "pass  heed info on the smallest AVX-512: $(sed -n 's/.*"cpu_features": "\(.*\)".*/\1/p' "$work/info")"
else
    cat "$work/info"
    echo "FAIL  heed info on the smallest AVX-512: that backend is not chosen"
fi | tee "$work/log"
status=0
"$here/avx512-emulation.sh" -t 1500 -e HEED_TEST_QUICK=1 -e HEED_TEST_SEED="${HEED_TEST_SEED:-1}" -w "$build" \
    "$@" "${files[@]}" -f "$work/all.sh:/all.sh" /bin/sh /all.sh 2>&1 | tee -a "$work/log" || status=$?
[ $status = 0 ] || echo "FAIL  emulator: exit status $status" | tee -a "$work/log"

passed=$(grep -c '^pass  ' "$work/log" || true)
failed=$(grep -c '^FAIL  ' "$work/log" || true)
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" = $((${#programs[@]} + 1)) ]
