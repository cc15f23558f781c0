#!/bin/bash
# The archive of tools/package: its programs run where it is unpacked, with the
# libraries that came along, and so do its tests and benchmarks.
set -euo pipefail
cd "$TEST_SRCDIR/$TEST_WORKSPACE"
source tests/integration/server.sh

readonly GPU_TEST=tests/kernels/cuda/ops_on_device_test

# pack FILE: what tools/package does, with a few tests.
pack() {
  local arguments=()
  # Where there is no toolkit there is no such test.
  [[ ! -e $GPU_TEST ]] || arguments+=(--test "gpu:$GPU_TEST")
  /usr/bin/python3 tools/pack.py --name tensorkv-test --output "$1" \
    --outputs_root . \
    --program service/tensorkv-server --program client/cli/tensorkv \
    --test host:tests/kernels/rules_test \
    --test device:tests/integration/async_kill_test \
    --data service/tensorkv-server --data tests/integration/fault_pusher \
    --benchmark bench/data_path/data_path_benchmark \
    --data bench/data_path/reference_server \
    --license libcli11-dev "${arguments[@]}"
}

# Everything but glibc comes from the archive.
expect_own_libraries() {
  local program foreign
  while read -r program; do
    foreign=$(ldd "$program" | grep ' => ' | grep -vF " $PWD/" |
      grep -vE ' => /[^ ]*/lib(c|m|dl|pthread|rt|resolv)\.so' || true)
    [[ -z $foreign ]] || fail "$program takes libraries of the system: $foreign"
  done < <(find bin tests -type f -perm -u+x)
}

# Nothing but bash and coreutils, and no environment.
alone() {
  local path=$TEST_TMPDIR/coreutils tool
  mkdir -p "$path"
  for tool in bash dirname mkdir mktemp rm tail timeout; do
    ln -sf "$(type -P "$tool")" "$path/"
  done
  env -i PATH="$path" "$@"
}

archive=$TEST_TMPDIR/tensorkv.tar.gz
pack "$archive"
pack "$archive.again"
cmp "$archive" "$archive.again" || fail "the same programs, another archive"

mkdir "$TEST_TMPDIR/some where"
tar -xzf "$archive" -C "$TEST_TMPDIR/some where"
cd "$TEST_TMPDIR/some where/tensorkv-test"
expect_own_libraries
for package in 'libprotobuf*' libcli11-dev; do
  compgen -G "licenses/$package" >/dev/null ||
    fail "the licence of $package is missing"
done

mkdir service
ln -s ../bin/tensorkv-server service/tensorkv-server
start_server
alone bin/tensorkv --target="$server" init w --shape=2 --fill=3
[[ $(alone bin/tensorkv --target="$server" pull w) == '3.0 3.0' ]] ||
  fail "pull"

alone ./run-tests >"$TEST_TMPDIR/output" || fail "$(<"$TEST_TMPDIR/output")"
cat "$TEST_TMPDIR/output"
[[ $(tail -n 1 "$TEST_TMPDIR/output") =~ ^[1-9][0-9]*' passed, 0 failed, ' ]] ||
  fail "run-tests ended otherwise"

[[ $(alone ./run-bench --list) == data_path_benchmark ]] || fail "--list"
alone ./run-bench --only push/4KiB --quick --repetitions=1 --trial_ms=1 |
  grep 'tcp/push/4KiB ' || fail "run-bench"
