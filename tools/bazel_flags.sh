# Sourced by the scripts beside it: BAZEL_FLAGS, for every build and test.

BAZEL_FLAGS=(
  "--disk_cache=${XDG_CACHE_HOME:-$HOME/.cache}/tensorkv-bazel"
)
if [[ ! -t 1 || ${CI:-} == true ]]; then
  BAZEL_FLAGS+=(--noshow_progress --color=no --curses=no)
fi
