#!/bin/bash
# The Python package against a store in its process and against the real server.

set -eu
source tests/integration/server.sh

require_python numpy torch
start_server --budget=256MiB
export PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export TENSORKV_ADDRESS=$server
/usr/bin/python3 -m unittest --verbose \
  tests/python/bad_input_test.py \
  tests/python/client_test.py \
  tests/python/interruption_test.py \
  tests/python/kvstore_test.py \
  tests/python/torch_test.py \
  tests/python/transcripts_test.py
