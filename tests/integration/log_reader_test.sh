#!/bin/bash
# Ctrl-C of `tensorkv-server 2>&1 | tee log` ends `tee` first, or the server.
# Either way the server writes its last checkpoint. The command, whose reader
# goes, says nothing and ends as others do then.

set -eu
source tests/integration/server.sh

# Each job is a group of processes, which a terminal would interrupt at once.
set -m

for ((i = 0; i < 10; ++i)); do
  log=$TEST_TMPDIR/log.$i
  checkpoints=$TEST_TMPDIR/checkpoints.$i
  mkfifo "$log"
  (service/tensorkv-server --device=cpu --listen=127.0.0.1:0 \
    --metrics_listen= --checkpoint_dir="$checkpoints" 2>&1 | tee "$log") &
  group=$!
  grep -m1 ' ready listen=' "$log" || fail "server $i did not start"
  kill -INT -- "-$group"
  wait "$group" || true
  # `tee` may have ended before the server.
  while pgrep -g "$group" >/dev/null; do :; done
  [[ -e $checkpoints/auto-000000001/CHECKPOINT ]] ||
    fail "server $i has left no checkpoint"
done

set +m
start_server --budget=64MiB
export TENSORKV_TARGET=$server
stderr=$TEST_TMPDIR/stderr
client/cli/tensorkv init w --shape=100000 --fill=1
for command in 'pull w --npy=-' 'pull w --output=json'; do
  # It has words of its own.
  # shellcheck disable=SC2086
  { client/cli/tensorkv $command 2>"$stderr" && code=0 || code=$?
    echo "$code" >"$TEST_TMPDIR/code"; } | head -c 1 >/dev/null
  [[ $(<"$TEST_TMPDIR/code") == 141 ]] ||
    fail "tensorkv $command: expected exit code 141, got $(<"$TEST_TMPDIR/code")"
  [[ ! -s $stderr ]] ||
    fail "tensorkv $command: expected no word, got $(<"$stderr")"
done
