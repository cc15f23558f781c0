#!/bin/bash
# The Python package against a store in its process and against the real server:
#   python_package_test.sh TEST.py...

set -eu
source tests/integration/server.sh

require_python numpy
if [[ $* == *torch_test* ]]; then
  require_python torch
fi
start_server --budget=512MiB
export PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1
export TENSORKV_ADDRESS=$server
# What runs beside has the other cores.
export OMP_NUM_THREADS=1
/usr/bin/python3 -m unittest --verbose "$@"
