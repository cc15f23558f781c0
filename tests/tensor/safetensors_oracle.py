"""Compares our .safetensors files with those of the stock library.

Usage: safetensors_oracle.py PROGRAM DIRECTORY
"""

import ctypes
import math
import subprocess
import sys

import safetensors

OURS = {
    "BOOL": "bool", "U8": "u8", "I8": "i8", "F8_E5M2": "f8e5m2",
    "F8_E4M3": "f8e4m3fn", "I16": "i16", "U16": "u16", "F16": "f16",
    "BF16": "bf16", "I32": "i32", "U32": "u32", "F32": "f32", "F64": "f64",
    "I64": "i64", "U64": "u64",
}
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2,
         "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4,
         "F64": 8, "I64": 8, "U64": 8}
# As the library calls them when it writes.
WRITTEN = {"BOOL": "bool", "U8": "uint8", "I8": "int8",
           "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn",
           "I16": "int16", "U16": "uint16", "F16": "float16",
           "BF16": "bfloat16", "I32": "int32", "U32": "uint32",
           "F32": "float32", "F64": "float64", "I64": "int64",
           "U64": "uint64"}


def elements(dtype, size):
    if dtype == "BOOL":
        return bytes(i % 2 for i in range(size))
    return bytes((7 * i + 3) % 256 for i in range(size))


def size_of(dtype, shape):
    return SIZES[dtype] * math.prod(shape)


def check_ours(program, path):
    subprocess.run([program, "write", path], check=True)
    with open(path, "rb") as file:
        tensors = dict(safetensors.deserialize(file.read()))
    shapes = [[], [3, 5], [0], [1] * 7 + [7]]
    assert len(tensors) == len(OURS) * len(shapes), len(tensors)
    for dtype, name in OURS.items():
        for shape in shapes:
            tensor = tensors[f'é"\\/{name}{len(shape)}']
            assert tensor["dtype"] == dtype, (name, tensor["dtype"])
            assert list(tensor["shape"]) == shape, (name, tensor["shape"])
            assert bytes(tensor["data"]) == elements(
                dtype, size_of(dtype, shape)), name


def serialize(tensors, metadata):
    try:
        from safetensors import TensorSpec
    except ImportError:  # before 0.8
        return safetensors.serialize(tensors, metadata)
    buffers = {name: ctypes.create_string_buffer(tensor["data"])
               for name, tensor in tensors.items()}
    specs = {name: TensorSpec(dtype=tensor["dtype"], shape=tensor["shape"],
                              data_ptr=ctypes.addressof(buffers[name]),
                              data_len=len(tensor["data"]))
             for name, tensor in tensors.items()}
    return safetensors.serialize(specs, metadata)


def check_theirs(program, path):
    tensors = {}
    for dtype in OURS:
        for shape in ([], [4, 3], [0]):
            size = size_of(dtype, shape)
            tensors[f"{dtype}/{len(shape)}"] = {
                "dtype": WRITTEN[dtype], "shape": shape,
                "data": elements(dtype, size)}
    written = serialize(tensors, {"made by": "the stock library"})
    with open(path, "wb") as file:
        file.write(written)
    read = subprocess.run([program, "read", path], check=True,
                          capture_output=True, text=True).stdout
    got = {line.split(" ")[0]: line.split(" ")[1:]
           for line in read.splitlines()}
    assert got.keys() == tensors.keys(), got.keys() ^ tensors.keys()
    for name, tensor in tensors.items():
        assert got[name] == [
            OURS[name.split("/")[0]], ",".join(map(str, tensor["shape"])),
            tensor["data"].hex()], (name, got[name])


def main():
    program, directory = sys.argv[1:]
    check_ours(program, f"{directory}/ours.safetensors")
    check_theirs(program, f"{directory}/theirs.safetensors")


main()
