#!/bin/bash
# The archive of tools/package: its programs run where it is unpacked, with the
# libraries that came along, and its tests too.

set -eu
source tests/integration/server.sh

cd "$TEST_SRCDIR/$TEST_WORKSPACE"
archive=$TEST_TMPDIR/tensorkv.tar.gz
pack() {
  /usr/bin/python3 tools/pack.py --name tensorkv-test \
    --program service/tensorkv-server --program client/cli/tensorkv \
    --outputs_root . --test tests/tensor/shape_test --output "$1"
}
pack "$archive"
pack "$archive.again"
cmp "$archive" "$archive.again" || fail "the same programs, another archive"

mkdir "$TEST_TMPDIR/elsewhere"
tar -xzf "$archive" -C "$TEST_TMPDIR/elsewhere"
cd "$TEST_TMPDIR/elsewhere/tensorkv-test"

# Everything but glibc comes from the archive.
for program in bin/tensorkv-server bin/tensorkv tests/tests/tensor/shape_test
do
  foreign=$(ldd "$program" | grep ' => ' | grep -v " $PWD/" |
    grep -vE ' => /[^ ]*/lib(c|m|dl|pthread|rt|resolv)\.so' || true)
  [[ -z $foreign ]] || fail "$program takes libraries of the system: $foreign"
done
compgen -G 'licenses/libprotobuf*' >/dev/null ||
  fail "the licence of protobuf is missing"

mkdir -p service
ln -s ../bin/tensorkv-server service/tensorkv-server
start_server
[[ $(bin/tensorkv --server="$server" init w --shape=2 --fill=3) == '' ]] ||
  fail "init"
[[ $(bin/tensorkv --server="$server" pull w) == '[3. 3.]' ]] || fail "pull"

last=$(./run-tests | tail -n 1)
[[ $last == '1 of 1 test programs passed' ]] || fail "run-tests: $last"
last=$(./run-tests no_such_test | tail -n 1)
[[ $last == '0 of 0 test programs passed' ]] || fail "run-tests: $last"
