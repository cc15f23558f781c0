#!/bin/bash
# The Python package against a store in its process and against the real server:
#   python_package_test.sh TEST.py...

set -eu
source tests/integration/server.sh

require_python grpc numpy
if [[ $* == *torch_test* || $* == *publishing_test* || $* == *diloco* ]]; then
  require_python torch
fi
if [[ $* == *deltas_test* ]]; then
  require_python safetensors zstandard
fi

# loaded_library NAME: prints the path of a library that the extension loads.
loaded_library() {
  ldd python/tensorkv/_core.so | sed -n "s/.* => \(.*\/lib$1[^ ]*\) .*/\1/p"
}

# preload_sanitizer: an extension with AddressSanitizer in it needs that before
# all else in its process, and the library whose exceptions that watches. What
# Python has when it ends is no leak; what is freed is soon used again, so that
# memory grows by leaks alone.
preload_sanitizer() {
  local asan
  asan=$(loaded_library clang_rt.asan)
  [[ -n $asan ]] || return 0
  export LD_PRELOAD=$asan:$(loaded_library stdc++)
  export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0:quarantine_size_mb=1
}

start_server --budget=512MiB
preload_sanitizer
export PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1
# Where tools/setup puts Flower, with versions of its own of what it needs.
if [[ $* == *flower_test* || $* == *secure_aggregation_test* ]]; then
  PYTHONPATH=$PYTHONPATH:${TENSORKV_FLOWER:-/usr/local/lib/tensorkv-flower}
fi
export TENSORKV_TARGET=$server
# What runs beside has the other cores.
export OMP_NUM_THREADS=1
/usr/bin/python3 -m unittest --verbose "$@"
