#!/bin/bash
# run-tests of the archive, on programs that print what GoogleTest prints.
set -euo pipefail

fail() {
  echo "FAILED: $*" >&2
  [[ ! -e $output ]] || cat "$output" >&2
  exit 1
}

# program PATH < SCRIPT: a program of the package.
program() {
  mkdir -p "$(dirname "$package/$1")"
  { echo '#!/bin/bash'; cat; } >"$package/$1"
  chmod +x "$package/$1"
}

# test_program KIND PATH < SCRIPT: a program with the test cases S.A and S.B.
test_program() {
  program "tests/$2" < <(
    echo '[[ ${1:-} != --gtest_list_tests ]] || exec printf "S.\n  A\n  B\n"'
    cat
  )
  echo "$1 $2" >>"$package/tests/tests.txt"
}

server_without_gpu() {
  program bin/tensorkv-server <<'END'
echo "tensorkv-server: $1: no driver" >&2
exit 2
END
}

server_on_gpu() {
  program bin/tensorkv-server <<'END'
echo 'T info ready listen=127.0.0.1:1' >&2
exec sleep 600
END
}

# expect STATUS TEXT... -- ARGUMENT...: how run-tests ends, and lines it prints.
expect() {
  local status=0 expected=$1 texts=()
  shift
  while [[ $1 != -- ]]; do
    texts+=("$1")
    shift
  done
  shift
  "$package/run-tests" "$@" >"$output" 2>&1 || status=$?
  ((status == expected)) || fail "run-tests $*: status $status, not $expected"
  for text in "${texts[@]}"; do
    grep -qF -- "$text" "$output" || fail "run-tests $*: expected $text"
  done
}

source=$PWD/tools/packaged/run-tests
# Any folder will do.
package="$TEST_TMPDIR/a package"
output=$TEST_TMPDIR/output
mkdir -p "$package/tests"
cp "$source" "$package"
PATH=$TEST_TMPDIR/path:$PATH

test_program host a/host_test <<'END'
echo '[       OK ] S.A (0 ms)'
echo 'a/host_test.cc:1: Skipped'
echo 'no such instructions'
echo '[  SKIPPED ] S.B (0 ms)'
echo '[  SKIPPED ] 1 test, listed below:'
echo '[  SKIPPED ] S.B'
END
test_program device a/device_test <<'END'
echo "[       OK ] S.A (0 ms)"
echo "[       OK ] S.B (0 ms)"
echo "$TENSORKV_TEST_DEVICE" >>"$TEST_TMPDIR/devices"
cp "$TEST_TMPDIR/devices" "$0.devices"
END
test_program gpu a/gpu_test <<'END'
echo '[       OK ] S.A (0 ms)'
echo '[       OK ] S.B (0 ms)'
END

server_without_gpu
expect 0 'skipped a/device_test on cuda:0: 2 skipped' \
  'SKIPPED 1: no such instructions' \
  'SKIPPED 2: tensorkv-server: --device=cuda:0: no driver' \
  '5 passed, 0 failed, 3 skipped' --
expect 0 'SKIPPED 4: --device=cpu' '3 passed, 0 failed, 5 skipped' -- \
  --device=cpu
expect 1 'FAILED no server on cuda:1, status 2' -- --device=cuda:1
expect 0 '1 passed, 0 failed, 1 skipped' -- host_test
expect 2 'no program to run has such a name' -- no_such_test
expect 2 'no program to run has such a name' -- --gpu-only host_test
expect 2 'no program to run has such a name' -- --sanitize host_test
expect 2 '--gpu-only leaves nothing' -- --gpu-only --device=cpu
expect 2 'unknown argument --else' -- --else
expect 0 'run-tests --sanitize' -- --help

server_on_gpu
expect 0 '7 passed, 0 failed, 1 skipped' --
[[ $(<"$package/tests/a/device_test.devices") == $'cpu\ncuda:0' ]] ||
  fail "the test of devices did not run on both"
expect 0 '4 passed, 0 failed, 0 skipped' -- --gpu-only

expect 0 'SKIPPED 4: compute-sanitizer is not on PATH' \
  '0 passed, 0 failed, 4 skipped' -- --sanitize
mkdir "$TEST_TMPDIR/path"
cat >"$TEST_TMPDIR/path/compute-sanitizer" <<'END'
#!/bin/bash
echo "${@:1:2}"
"${@: -1}"
[[ $2 == memcheck ]] || exit 99
END
chmod +x "$TEST_TMPDIR/path/compute-sanitizer"
expect 1 'a/gpu_test under memcheck: 2 passed' \
  'FAILED a/gpu_test under racecheck: ended with status 99' \
  '4 passed, 1 failed, 0 skipped' -- --sanitize --logs="$TEST_TMPDIR/logs"
[[ $(<"$TEST_TMPDIR/logs/a_gpu_test_under_memcheck.log") == *memcheck* ]] ||
  fail "the output of memcheck was not kept"

test_program host a/failing_test <<'END'
echo '[ RUN      ] S.A'
echo 'what went wrong'
echo '[  FAILED  ] S.A, where GetParam() = 3 (0 ms)'
for i in {1..100}; do echo "later $i"; done
echo '[  FAILED  ] S.A, where GetParam() = 3'
exit 1
END
expect 1 'what went wrong' 'FAILED a/failing_test: S.A, where GetParam() = 3' \
  '0 passed, 1 failed, 0 skipped' -- failing

# What ends a server on a GPU in another way is no reason to skip.
program bin/tensorkv-server <<<'echo broken; exit 3'
expect 1 'FAILED no server on cuda:0, status 3: broken' -- host_test
