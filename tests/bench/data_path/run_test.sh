#!/bin/bash
# Runs rows of every kind once, and looks at the records.
#
#   run_test.sh BENCHMARK REFERENCE_SERVER TENSORKV_SERVER
set -euo pipefail

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

benchmark=$1 reference_server=$2 server=$3
json=$TEST_TMPDIR/records.json

# Calls, batches, encoded pushes, rules, rounds, TLS, checkpoints and memory;
# Redis and memcached where they are installed.
"$benchmark" --repetitions=1 --trial_ms=1 --json "$json" --revision r1 \
  --server="$server" --reference_server="$reference_server" --only \
  '^t.*/4KiB$|x256B|2bit/1MiB|sgd/1MiB|round/4x1MiB|assign/8MiB|16x16MiB' |
  tee "$TEST_TMPDIR/output"

for text in '"name": "tcp/push/4KiB"' '"name": "tcp/pull/4KiB"' \
  '"name": "tcp/pushpull/10000x256B"' '"of_raw"' '"of_naive"' \
  '"name": "encoded/2bit/1MiB"' '"of_plain"' '"name": "rule/sgd/1MiB"' \
  '"of_assign"' '"name": "round/4x1MiB"' '"of_unrelated"' \
  '"name": "tls/pull/4KiB"' '"name": "checkpoint/restore/assign/8MiB"' \
  '"of_plain_file"' '"figure"' '"revision": "r1"'; do
  grep --quiet --fixed-strings -- "$text" "$json" || fail "no $text in $json"
done
! grep --quiet error_message "$json" || fail "$(grep error_message "$json")"
others=$(grep -c -E 'without (redis|memcached): cannot start' "$json" || true)
all=$(grep -c without "$json" || true)
[[ $all == "$others" ]] || fail "left out: $(grep without "$json")"

"$benchmark" --no_such_flag 2>/dev/null && fail "expected a failure"
[[ $("$benchmark" --help) == *--server_cpus* ]] || fail "--help lacks a flag"

if "$benchmark" --server=/no/such/server 2>"$TEST_TMPDIR/error"; then
  fail "expected a failure without a server"
fi
grep --quiet 'bench: cannot start /no/such/server' "$TEST_TMPDIR/error" ||
  fail "$(<"$TEST_TMPDIR/error")"
