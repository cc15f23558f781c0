#!/bin/bash
# Generates Python stubs from proto/ and runs a client made of them against
# the real server, and workers made of them through deaths and restarts.

set -eu
source tests/integration/server.sh

require_python grpc google.protobuf numpy
[[ -x /usr/bin/grpc_python_plugin ]] ||
  fail "no /usr/bin/grpc_python_plugin: run tools/setup --test"

stubs=$TEST_TMPDIR/stubs
mkdir "$stubs"
protoc --proto_path=proto --python_out="$stubs" --grpc_out="$stubs" \
  --plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin \
  proto/tensorkv/v1/*.proto

protoc --proto_path=tests/integration --python_out="$stubs" \
  tests/integration/google_rpc.proto tests/integration/reflection.proto

/usr/bin/python3 tests/integration/python_training.py "$stubs" \
  service/tensorkv-server

start_server --budget=64MiB
/usr/bin/python3 tests/integration/python_client.py "$stubs" "$server"
