#!/bin/bash
# bazel run //tests/python:throughput

set -eu
source tests/integration/server.sh

start_server --budget=1GiB
PYTHONPATH=python /usr/bin/python3 tests/python/throughput.py "$server" \
  tests/python/cpp_throughput
