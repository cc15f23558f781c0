#!/bin/bash
# Runs the benchmark on a few rows, and looks at its files.
#
#   run_test.sh BENCHMARK REFERENCE_SERVER TENSORKV_SERVER
set -euo pipefail

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# run NAME TEXT: the rows with TEXT, into NAME.json and NAME.md.
run() {
  "$benchmark" --only "$2" --quick --repetitions=1 --trial_ms=1 \
    --server="$server" --reference_server="$reference_server" \
    --json "$TEST_TMPDIR/$1.json" --markdown "$TEST_TMPDIR/$1.md" \
    --command "run_test $1" --revision r1
}

# has NAME TEXT...: each TEXT is in the file NAME.
has() {
  local text
  for text in "${@:2}"; do
    grep --quiet --fixed-strings -- "$text" "$TEST_TMPDIR/$1" ||
      fail "$1 lacks $text"
  done
}

benchmark=$1 reference_server=$2 server=$3

run calls push/4KiB
has calls.json '"name": "tcp/push/4KiB"' '"name": "unix/push/4KiB"' \
  '"in_flight": 16' '"reference": "raw"' '"reference": "naive"' \
  '"reference": "echo"'
has calls.md '### One tensor, TCP' '| tcp/push/4KiB ' '### Goals' \
  'tcp/push/4KiB, p50 by echo' '`run_test calls`' 'revision: r1'

run batches 100x4KiB
has batches.json '"name": "tcp/pushpull/100x4KiB"' '"reference": "raw"'

run rounds round/2x1MiB
has rounds.json '"name": "round/2x1MiB"' '"reference": "unrelated"'

run rules sgd
has rules.json '"name": "rule/sgd/1MiB"' '"name": "round/4x1MiB/sgd"' \
  '"reference": "assign"' '"reference": "naive"' '"reference": "memcpy"'

run tls tls/push/4KiB
has tls.json '"name": "tls/push/4KiB"' '"reference": "plain"'

run held held/16x16MiB
has held.md 'resident by counted bytes'

"$benchmark" --no_such_flag 2>"$TEST_TMPDIR/error" && fail "expected a failure"
[[ $("$benchmark" --help) == *--server_cpus* ]] || fail "--help lacks a flag"

if "$benchmark" --server=/no/such/server 2>"$TEST_TMPDIR/error"; then
  fail "expected a failure without a server"
fi
has error 'bench: cannot start /no/such/server'
