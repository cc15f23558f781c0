#!/usr/bin/python3
"""Tests of contract/write_tables.py that need no descriptors of proto/."""

import sys
import types
import unittest

sys.path.insert(0, "contract")
import write_tables  # noqa: E402


def message(name):
    return types.SimpleNamespace(full_name=name, fields=[])


def field_of(kind):
    return types.SimpleNamespace(message_type=kind)


class HasTensorsTest(unittest.TestCase):
    def test_messages_may_have_themselves(self):
        tree, leaf = message("Tree"), message("Leaf")
        tree.fields = [field_of(None), field_of(tree), field_of(leaf)]
        leaf.fields = [field_of(tree)]

        self.assertFalse(write_tables.has_tensors(tree))

        leaf.fields.append(field_of(message("tensorkv.v1.Tensor")))
        self.assertTrue(write_tables.has_tensors(tree))
        self.assertTrue(write_tables.has_tensors(leaf))


if __name__ == "__main__":
    unittest.main()
