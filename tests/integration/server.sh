# Starts the real server for shell tests; sourced from where Bazel runs them.

server_pid=
server_log=

fail() {
  echo "FAILED: $*" >&2
  if [[ $server_pid ]]; then
    kill "$server_pid" || echo "the server has died" >&2
    cat <&"$server_log" >&2
  fi
  exit 1
}

# Python with these modules, or no test: tools/setup --test installs it.
require_python() {
  local module
  [[ -x /usr/bin/python3 ]] || fail "no /usr/bin/python3: run tools/setup --test"
  for module in "$@"; do
    /usr/bin/python3 -c "import $module" ||
      fail "/usr/bin/python3 has no module $module: run tools/setup --test"
  done
}

# start_server [FLAG...] sets `server` to the address of a new server on the
# CPU, which is stopped when the test ends.
start_server() {
  local line
  exec {server_log}< <(exec service/tensorkv-server --device=cpu \
    --listen=127.0.0.1:0 --metrics_listen=127.0.0.1:0 "$@" 2>&1)
  server_pid=$!
  trap 'kill "$server_pid"' EXIT
  while read -r -u "$server_log" line; do
    echo "server: $line"
    [[ $line =~ \ ready\ listen=([^ ]+) ]] || continue
    server=${BASH_REMATCH[1]}
    return
  done
  fail "the server did not start"
}
