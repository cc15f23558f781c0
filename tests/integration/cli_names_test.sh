#!/bin/bash
# Every name that a key or a namespace may have, through the command, the files
# that it writes, a restarted server and its metrics, with the real binaries.

set -eu
source tests/integration/server.sh

require_python
start_server --checkpoint_dir="$TEST_TMPDIR/checkpoints"

tensorkv() {
  TSAN_OPTIONS="${TSAN_OPTIONS:-}:report_bugs=0" \
    client/cli/tensorkv --target="$server" "$@"
}

# same_names FILE MEMBER WHAT compares the names in FILE, each of which ends
# with a zero byte, with the member MEMBER of the lines of JSON that it reads.
same_names() {
  /usr/bin/python3 -c '
import json, sys
with open(sys.argv[1], encoding="utf-8", newline="") as file:
    expected = sorted(file.read().split("\0")[:-1])
lines = sys.stdin.buffer.read().decode().split("\n")[:-1]
got = sorted(json.loads(line)[sys.argv[2]] for line in lines)
got = [name for name in got if name != "default"]
assert got == expected, [set(got) - set(expected), set(expected) - set(got)]
' "$1" "$2" || fail "$3: expected all names, got others"
}

names=$TEST_TMPDIR/names
tests/testing/print_odd_names 1024 >"$names"
mapfile -d '' -t keys <"$names"

tensorkv init --shape=2 --fill=1 -- "${keys[@]}"
tensorkv ls -o json | same_names "$names" key ls
tensorkv stat -o json -- "${keys[@]}" | same_names "$names" key stat
tensorkv push --fill=2 -o json -- "${keys[@]}" | same_names "$names" key push
tensorkv pull -o json -- "${keys[@]}" | same_names "$names" key pull
for key in "${keys[@]:0:5}"; do
  [[ $(tensorkv pull -- "$key") == '2.0 2.0' ]] || fail "pull $key"
done

tensorkv export "$TEST_TMPDIR/keys.safetensors" >"$TEST_TMPDIR/out"
tensorkv rm -- "${keys[@]}"
[[ -z $(tensorkv ls -o json) ]] || fail 'rm: expected no key, got some'
tensorkv import "$TEST_TMPDIR/keys.safetensors" >"$TEST_TMPDIR/out"
tensorkv ls -o json | same_names "$names" key import

tests/testing/print_odd_names 256 >"$TEST_TMPDIR/namespaces"
mapfile -d '' -t namespaces <"$TEST_TMPDIR/namespaces"
for namespace in "${namespaces[@]:0:24}"; do
  tensorkv ns create -- "$namespace"
  printf '%s\0' "$namespace" >>"$TEST_TMPDIR/created"
done
tensorkv ns ls -o json | same_names "$TEST_TMPDIR/created" name 'ns ls'

# A server that begins with the last checkpoint of this one.
kill "$server_pid"
tail --pid="$server_pid" -f /dev/null
start_server --checkpoint_dir="$TEST_TMPDIR/checkpoints"
tensorkv ls -o json | same_names "$names" key 'after a restart'
tensorkv ns ls -o json |
  same_names "$TEST_TMPDIR/created" name 'ns ls after a restart'
tensorkv pull -o json -- "${keys[@]}" | same_names "$names" key pull

for namespace in "${namespaces[@]:0:5}"; do
  tensorkv ns rm -- "$namespace"
done
