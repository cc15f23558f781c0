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

    def option(self, descriptor, name):
        """What an option of the contract says."""
        known = descriptor.GetOptions()
        message = message_factory.MessageFactory(self.pool).GetPrototype(
            self.pool.FindMessageTypeByName(known.DESCRIPTOR.full_name))
        options = message.FromString(known.SerializeToString())
        return options.Extensions[
            self.pool.FindExtensionByName(f"{PACKAGE}.{name}")]

    def methods(self):
        for file in self.files.file:
            for service in file.service if file.package == PACKAGE else ():
                name = f"{PACKAGE}.{service.name}"
                for method in self.pool.FindServiceByName(name).methods:
                    yield self.method(service.name, method)

    def method(self, service, method):
        policy = self.option(method, "policy")
        streams = descriptor_pb2.MethodDescriptorProto()
        method.CopyToProto(streams)
        kind = {(False, False): "UNARY", (True, False): "CLIENT_STREAM",
                (False, True): "SERVER_STREAM", (True, True): "BIDI_STREAM"}
        return {"name": method.name, "service": service,
                "kind": kind[streams.client_streaming,
                             streams.server_streaming],
                "has_tensors": (has_tensors(method.input_type) or
                                has_tensors(method.output_type)),
                "has_reply": bool(method.output_type.fields),
                **{field.name: field.enum_type.values_by_number[
                    getattr(policy, field.name)].name
                   for field in policy.DESCRIPTOR.fields}}

    def reasons(self):
        values = self.pool.FindEnumTypeByName(PACKAGE + ".Reason").values
        for value in values[1:]:
            yield {"name": value.name, "number": value.number,
                   "code": self.option(value, "code"),
                   "metadata": list(self.option(value, "metadata"))}


def has_tensors(message, seen=None):
    """Tells whether a message has tensors, in itself or in those that it has.

    `seen` has the messages that are looked at already, since they may recur.
    """
    seen = set() if seen is None else seen
    if message.full_name in seen:
        return False
    seen.add(message.full_name)
    return message.full_name == PACKAGE + ".Tensor" or any(
        has_tensors(field.message_type, seen) for field in message.fields
        if field.message_type)


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def macro(name, rows):
    """A list for C++: X(...) for each row."""
    lines = ["  X(%s)" % ", ".join(map(str, row)) for row in rows]
    return " \\\n".join(["#define %s(X)" % name, *lines]) + "\n"


def method_rows(methods, *columns):
    for method in methods:
        yield (method["name"], method["service"],
               *("k" + camel(method[column])
                 for column in ("repeat", "right", "scope", *columns)))


def header(methods, reasons):
    peers = [each for each in methods if each["service"] == "Peer"]
    clients = [each for each in methods if each["service"] != "Peer"]
    unary = [each for each in clients if each["kind"] == "UNARY"]
    streams = [each for each in clients if each["kind"] != "UNARY"]
    plain = [each for each in unary if not each["has_tensors"]]
    silent = [each for each in unary if not each["has_reply"]]
    return "\n".join([
        "// Written by contract/write_tables.py.\n",
        "#ifndef TENSORKV_CONTRACT_TABLES_H_",
        "#define TENSORKV_CONTRACT_TABLES_H_\n",
        macro("TENSORKV_UNARY_METHODS", method_rows(unary)),
        macro("TENSORKV_PLAIN_METHODS", method_rows(plain)),
        macro("TENSORKV_SILENT_METHODS", method_rows(silent)),
        macro("TENSORKV_STREAM_METHODS", method_rows(streams, "kind")),
        macro("TENSORKV_PEER_METHODS", method_rows(peers)),
        macro("TENSORKV_REASONS", (
            ("k" + camel(reason["name"]), reason["name"], reason["number"],
             "k" + camel(reason["code"]),
             json.dumps("|".join(reason["metadata"])))
            for reason in reasons)),
        "#endif  // TENSORKV_CONTRACT_TABLES_H_\n"])


def main():
    descriptors, header_path, json_path = map(pathlib.Path, sys.argv[1:])
    contract = Contract(descriptors.read_bytes())
    tables = {"methods": list(contract.methods()),
              "reasons": list(contract.reasons())}
    header_path.write_text(header(**tables))
    json_path.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
