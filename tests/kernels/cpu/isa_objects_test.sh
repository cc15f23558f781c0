#!/bin/sh
# Checks that the loops compiled for one instruction set keep their code to
# themselves. Usage: isa_objects_test.sh ARCHIVE...
#
# Each archive may define one external symbol, its table. Anything weak is a
# function that the linker might give to callers on every CPU.
set -u

status=0
for archive in "$@"; do
  symbols=$(nm --defined-only --extern-only --demangle "$archive" |
    grep -E '^[0-9a-f]+ [^C] ' || true)
  others=$(echo "$symbols" | grep -v -E ' T tensorkv::\w+(Kernels|EncoderLoops)\(\)$')
  if [ -z "$symbols" ] || [ -n "$others" ]; then
    echo "$archive: expected the symbol of its table alone, got: $symbols"
    status=1
  fi
done
exit $status
