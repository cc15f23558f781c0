#!/bin/bash
# The rules of Prometheus and the dashboard, with Debian's Prometheus and a
# live server.
set -euo pipefail
source tests/integration/server.sh

require_python grpc google.protobuf yaml
for program in promtool prometheus; do
  type -P "$program" >/dev/null || fail "no $program: run tools/setup --test"
done

promtool check config docker/monitoring/prometheus.yml
promtool test rules tests/docker/monitoring/alerts_test.yml

stubs=$TEST_TMPDIR/stubs
mkdir "$stubs"
protoc --proto_path=proto --python_out="$stubs" --grpc_out="$stubs" \
  --plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin \
  proto/tensorkv/v1/*.proto
/usr/bin/python3 tests/docker/monitoring/live_monitoring_test.py "$stubs"
