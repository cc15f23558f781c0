#!/bin/bash
# Reads our .safetensors files with the stock library, and its files with ours.
set -eu
/usr/bin/python3 -c 'import safetensors' || {
  echo "no safetensors for /usr/bin/python3: run tools/setup --test" >&2
  exit 1
}
exec /usr/bin/python3 tests/tensor/safetensors_oracle.py \
  tests/tensor/safetensors_program "$TEST_TMPDIR"
