#!/bin/bash
# The tutorial by command line, with the real binaries: outputs, exit codes,
# JSON and .npy files.

set -eu
source tests/integration/server.sh

require_python numpy
start_server --budget=64MiB
stderr=$TEST_TMPDIR/stderr

# Without ThreadSanitizer's reports, if built with it: making one inside gRPC's
# connect() changes errno, and the command has but one thread of its own.
tensorkv() {
  TSAN_OPTIONS="${TSAN_OPTIONS:-}:report_bugs=0" \
    client/cli/tensorkv --target="$server" "$@"
}

# expect CODE STDOUT ARGUMENT... runs the client and compares what it does.
expect() {
  local expected_code=$1 expected=$2 code=0 actual
  shift 2
  actual=$(tensorkv "$@" 2>"$stderr") || code=$?
  [[ $code == "$expected_code" ]] || fail "tensorkv $*:" \
    "expected exit code $expected_code, got $code: $(<"$stderr")"
  [[ $actual == "$expected" ]] ||
    fail "tensorkv $*: expected <$expected>, got <$actual>"
}

# expect_error CODE TEXT ARGUMENT... wants one line with TEXT on stderr.
expect_error() {
  local code=$1 text=$2
  shift 2
  expect "$code" '' "$@"
  [[ $(wc -l <"$stderr") == 1 && $(<"$stderr") == tensorkv:*"$text"* ]] ||
    fail "tensorkv $*: expected one line with <$text>, got <$(<"$stderr")>"
}

# array NUMBER: as pull prints a 2x3 array of it.
array() {
  echo "$1 $1 $1"
  echo "$1 $1 $1"
}

# arrays NUMBER: the same for the keys 5, 7 and 9.
arrays() {
  local key
  for key in 5 7 9; do
    echo "$key:"
    array "$1"
  done
}

# The tutorial.
expect 0 SERVING health
expect 0 '' init 3 --shape=2,3 --fill=2
expect 0 "$(array 2.0)" pull 3
expect 0 '3: version 2' push 3 --fill=8
expect 0 "$(array 8.0)" pull 3
expect 0 '3: version 3' push 3 --fill=1 --times=4
expect 0 "$(array 4.0)" pull 3
expect 0 '' rule set 'expression: stored += input * 2'
expect 0 "$(array 4.0)" pull 3
expect 0 '3: version 4' push 3 --fill=1
expect 0 "$(array 6.0)" pull 3
expect 0 '' init 5 7 9 --shape=2,3 --fill=1
expect 0 $'5: version 2\n7: version 2\n9: version 2' push 5 7 9 --fill=1
expect 0 "$(arrays 3.0)" pull 5 7 9
expect 0 $'5: version 3\n7: version 3\n9: version 3' \
  push 5 7 9 --fill=1 --times=4
expect 0 "$(arrays 11.0)" pull 5 7 9

# JSON that other programs read.
expect 0 '{"num_deleted":"2"}' rm 7 9 --output=json
expect 0 '{"key":"5","version":"4","step":"0","repeated":false,"token":""}' \
  push 5 --fill=0 --output=json
tensorkv --output=json pull 3 |
  /usr/bin/python3 -c '
import json, sys
value = json.load(sys.stdin)
assert value["tensor"] == {"dtype": "DTYPE_F32", "shape": ["2", "3"]}, value
assert value["values"] == 6 * [6.0], value
' || fail "pull --output=json"
tensorkv --output=json stat 3 5 --digest |
  /usr/bin/python3 -c '
import json, sys
keys = [json.loads(line) for line in sys.stdin]
assert [key["key"] for key in keys] == ["3", "5"], keys
assert [key["version"] for key in keys] == ["4", "4"], keys
' || fail "stat --output=json"

# .npy files, written by NumPy and read back by NumPy.
saved_npy=$TEST_TMPDIR/array.npy
/usr/bin/python3 -c '
import numpy as np, sys
np.save(sys.argv[1], np.arange(12, dtype="<f8").reshape(3, 4) / 7)
' "$saved_npy"
expect 0 '' init npy --npy="$saved_npy"
expect 0 '' pull npy --npy="$TEST_TMPDIR/pulled.npy"
cmp "$saved_npy" "$TEST_TMPDIR/pulled.npy" || fail ".npy round trip"

# .safetensors files, into which keys go and out of which they come.
saved_keys=$TEST_TMPDIR/keys.safetensors
expect 0 'exported 1 keys' export "$saved_keys" --prefix=npy
expect 0 'imported 1 keys' import "$saved_keys" --add_prefix=again-
expect 0 '' pull again-npy --npy="$TEST_TMPDIR/pulled.npy"
cmp "$saved_npy" "$TEST_TMPDIR/pulled.npy" || fail ".safetensors round trip"
expect_error 1 'ALREADY_EXISTS' import "$saved_keys" --add_prefix=again-
expect_error 1 'cannot be read' import "$TEST_TMPDIR/nonexistent"
head -c 100 "$saved_keys" >"$TEST_TMPDIR/cut.safetensors"
expect_error 1 'cut.safetensors' import "$TEST_TMPDIR/cut.safetensors"

# Failed calls exit with 1 and say what the server said; wrong flags with 2.
expect_error 1 'ALREADY_EXISTS: key "3"' init 3 --shape=2,3 --fill=2
expect_error 1 'DEADLINE_EXCEEDED' pull 3 --min_version=100 --timeout=200ms
expect_error 1 'line 1, column 17: expected a number' rule set \
  'expression: stored += grad *'
expect_error 1 'UNAVAILABLE' health --target=127.0.0.1:1 --timeout=2s
expect_error 2 '--shape' init x --shape=2,x --fill=1
