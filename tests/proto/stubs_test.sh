#!/bin/bash
# Generates stubs from proto/ in every language that protoc and the installed
# plugins know: the options of the files say where each puts them.

set -eu

out=$TEST_TMPDIR/out

# generate ARGS FILE: ARGS of protoc make FILE, among others.
generate() {
  local -r file=${*: -1}
  mkdir -p "$out"
  protoc --proto_path=proto "${@:1:$#-1}" proto/tensorkv/v1/*.proto
  [[ -s $out/$file ]] || {
    echo "error: no $file; there are:" >&2
    (cd "$out" && find . -type f) >&2
    exit 1
  }
  rm -rf "$out"
}

# plugin NAME: its path; nothing if it is not installed.
plugin() { command -v "$1" || echo "not installed: $1" >&2; }

generate --csharp_out="$out" Service.cs
generate --java_out="$out" dev/tensorkv/v1/PushRequest.java
generate --objc_out="$out" tensorkv/v1/Service.pbobjc.h
generate --php_out="$out" TensorKV/V1/PushRequest.php
generate --ruby_out="$out" tensorkv/v1/service_pb.rb

if [[ -n $(plugin protoc-gen-go) && -n $(plugin protoc-gen-go-grpc) ]]; then
  generate --go_out="$out" --go-grpc_out="$out" \
    tensorkv.dev/tensorkv/v1/service_grpc.pb.go
fi
java=$(plugin grpc_java_plugin)
if [[ -n $java ]]; then
  generate --plugin=protoc-gen-grpc-java="$java" --grpc-java_out="$out" \
    dev/tensorkv/v1/DataGrpc.java
fi
