#!/bin/bash
# The archive of tools/package --sdk: programs with nothing of this repository
# are built with it, by pkg-config and by CMake, and run.
set -euo pipefail
cd "$TEST_SRCDIR/$TEST_WORKSPACE"
source tests/integration/server.sh

# pack OPTION...
pack() {
  /usr/bin/python3 tools/pack_sdk.py --name sdk --templates client/sdk \
    --library client/sdk/libtensorkv.so.0.1 "$@"
}

# How what a program may see of the library begins. Functions of std are those
# that the standard library has too.
readonly EXPORTS='^(typeinfo for |vtable for )?tensorkv::(v1::|[A-Z])|'\
'^std::|^TENSORKV_'

sources=$PWD
archive=$TEST_TMPDIR/sdk.tar.gz
pack --sources . --output "$archive"

# Each include counts, not only the first with a folder.
bad=$(mktemp -d)
cp -rL base client contract proto tensor "$bad"
for include in zlib.h 'sys/types.h> \n#include <prometheus/registry.h'; do
  sed "1i #include <$include>" client/client.h >"$bad/client/header"
  mv -f "$bad/client/header" "$bad/client/client.h"
  ! pack --sources "$bad" --output "$bad/sdk.tar.gz" 2>"$bad/log" ||
    fail "packs what includes <$include>"
  grep -q 'client.h includes <' "$bad/log" || fail "$(<"$bad/log")"
done
start_server
work=$(mktemp -d)
cd "$work"
tar -xzf "$archive"

export PKG_CONFIG_PATH=$work/sdk/lib/pkgconfig
export LD_LIBRARY_PATH=$work/sdk/lib

sed -n '/^  \/\/ Stores/,/^The folder/{s/^  //;/^The folder/d;p}' sdk/README \
  >main.cc
# shellcheck disable=SC2046
g++ -std=c++20 -Wall -Wextra -Werror -Wno-missing-field-initializers main.cc \
  $(pkg-config --cflags --libs tensorkv) -o plain
[[ $(./plain "$server") == '3 3 3 of version 2' ]] || fail "built by pkg-config"

mkdir project
cp "$sources/tests/tools/sdk_program.cc" project/main.cc
cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.16)
project(outside CXX)
find_package(TensorKV 0.1 REQUIRED)
add_executable(outside main.cc)
target_link_libraries(outside PRIVATE TensorKV::tensorkv)
END
cmake -S project -B build -DCMAKE_PREFIX_PATH="$work/sdk" >log ||
  fail "$(<log)"
cmake --build build >log 2>&1 || fail "$(<log)"
unset LD_LIBRARY_PATH
[[ $(build/outside "$server") == 'Push bf16' ]] || fail "built by CMake"

# As /lib is where it is a link to /usr/lib.
mkdir root
ln -s ../sdk/lib root/lib
cmake -S project -B linked -DCMAKE_PREFIX_PATH="$work/root" >log 2>&1 ||
  fail "found by a link: $(<log)"
sed -i 's/0\.1 REQUIRED/0.2 REQUIRED/' project/CMakeLists.txt
! cmake -S project -B later -DCMAKE_PREFIX_PATH="$work/sdk" >log 2>&1 ||
  fail "took the library for a later one"

# Another Abseil or protobuf than the library's is refused by name.
sed -i 's/0\.2 REQUIRED/0.1 REQUIRED/' project/CMakeLists.txt
for dependency in absl Protobuf; do
  rm -rf other
  cp -r sdk other
  sed -i "s/${dependency}_VERSION VERSION_EQUAL \"/&9/" \
    other/lib/cmake/TensorKV/TensorKVConfig.cmake
  ! cmake -S project -B "other-$dependency" -DCMAKE_PREFIX_PATH="$work/other" \
    >log 2>&1 || fail "took another $dependency"
  grep -qi "TensorKV was built with ${dependency/absl/Abseil}" log ||
    fail "$(<log)"
done

nm -DC --defined-only sdk/lib/libtensorkv.so |
  sed 's/^[0-9a-f]* [A-Za-z] //; s/\[abi:cxx11\](/(/
       s/^absl::.* \(tensorkv::ServerVerbs::Call\)<.*>(/\1(/' >exports
grep -q '^tensorkv::Client::Connect(' exports || fail "exports nothing"
! grep -vE "$EXPORTS" exports || fail "exports what is not the API's"

# Of the classes that programs use, all that their headers declare public, and
# nothing that they call private.
for class in ChangeReader ChangeWatch ChangeWriter Client NamespaceVerbs Pipeline ServerVerbs WorkerClient; do
  header=$(grep -l "^class $class [:{]" sdk/include/tensorkv/client/*.h)
  declared() { grep -oE '~?[A-Za-z_]+\(' | sort -u; }
  public_part() { sed "1,/^class $class [:{]/d;/^ pr[a-z]*:/,\$d" "$header"; }
  public=$(public_part | declared)
  # Inline functions, also those of a macro, are made by whoever calls them.
  for name in $(public_part | sed -zE 's/\n {6,}/ /g' |
    grep -E '^  [a-zA-Z]' | grep -vE '^  (using|TENSORKV_)|[{}\\]$' |
    sed 's/(.*/(/' | declared); do
    grep -qF "tensorkv::$class::$name" exports ||
      fail "does not export $class::$name)"
  done
  for name in $(sed '1,/^ pr[a-z]*:/d' "$header" | declared); do
    # What is both has a public overload, or is called by an inline function.
    grep -qxF -e "$name" <<<"$public" ||
      ! grep -F "tensorkv::$class::$name" exports ||
      fail "exports what is private"
  done
done
