#!/bin/bash
# Runs the benchmark where there may be no GPU: it says so, or finds nothing to
# measure.
#
#   run_test.sh BENCHMARK
set -uo pipefail

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

benchmark=$1
errors=$TEST_TMPDIR/errors
json=$TEST_TMPDIR/records.json

# run FLAG...
run() {
  "$benchmark" --only no_such_figure --json "$json" "$@" >/dev/null 2>"$errors"
  case $? in
    0)
      ! grep --quiet '"name"' "$json" || fail "records: $(cat "$json")"
      ;;
    77)
      [[ $(wc -l <"$errors") == 1 ]] ||
        fail "expected one line: $(cat "$errors")"
      grep --quiet '^gpu_benchmark: skipped: ' "$errors" ||
        fail "expected a reason: $(cat "$errors")"
      ;;
    *) fail "$(cat "$errors")" ;;
  esac
}

run
run --variant all

"$benchmark" --no_such_flag 2>"$errors"
[[ $? == 2 ]] || fail "expected wrong flags to end with status 2"
