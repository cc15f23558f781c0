#!/usr/bin/python3
"""Writes the tables that follow from the options in proto/.

Usage: write_tables.py DESCRIPTORS HEADER JSON

DESCRIPTORS is a FileDescriptorSet of protoc, with imports. HEADER becomes lists
for C++, of the form that contract/method.h and contract/reason.h explain; JSON
the same for programs in any language.
"""

import json
import pathlib
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "tensorkv.v1"


class Contract:
    """The descriptors, and the options that the contract adds to them."""

    def __init__(self, serialized):
        self.files = descriptor_pb2.FileDescriptorSet.FromString(serialized)
        self.pool = descriptor_pool.DescriptorPool()
        for file in self.files.file:
            self.pool.Add(file)

    def options(self, descriptor):
        """The options of the contract, by their names."""
        known = descriptor.GetOptions()
        message = message_factory.MessageFactory(self.pool).GetPrototype(
            self.pool.FindMessageTypeByName(known.DESCRIPTOR.full_name))
        options = message.FromString(known.SerializeToString())
        return {field.name: value for field, value in options.ListFields()
                if field.is_extension}

    def reasons(self):
        values = self.pool.FindEnumTypeByName(PACKAGE + ".Reason").values
        for value in values[1:]:
            options = self.options(value)
            yield {"name": value.name, "number": value.number,
                   "code": options["code"],
                   "metadata": list(options.get("metadata", []))}


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def macro(name, rows):
    """A list for C++: X(...) for each row."""
    lines = ["  X(%s)" % ", ".join(map(str, row)) for row in rows]
    return " \\\n".join(["#define %s(X)" % name, *lines]) + "\n"


def header(reasons):
    return "\n".join([
        "// Written by contract/write_tables.py.\n",
        "#ifndef TENSORKV_CONTRACT_TABLES_H_",
        "#define TENSORKV_CONTRACT_TABLES_H_\n",
        macro("TENSORKV_REASONS", (
            ("k" + camel(reason["name"]), reason["name"], reason["number"],
             "k" + camel(reason["code"]),
             json.dumps("|".join(reason["metadata"])))
            for reason in reasons)),
        "#endif  // TENSORKV_CONTRACT_TABLES_H_\n"])


def main():
    descriptors, header_path, json_path = map(pathlib.Path, sys.argv[1:])
    contract = Contract(descriptors.read_bytes())
    reasons = list(contract.reasons())
    header_path.write_text(header(reasons))
    json_path.write_text(json.dumps({"reasons": reasons}, indent=1) + "\n")


if __name__ == "__main__":
    main()
