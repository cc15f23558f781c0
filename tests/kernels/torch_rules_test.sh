#!/bin/sh
# Runs torch_rules_test.py with the system's Python.
exec /usr/bin/python3 tests/kernels/torch_rules_test.py "$@"
