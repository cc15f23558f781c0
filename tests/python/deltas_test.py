"""Directories of deltas, written and read."""

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import unittest
import zlib

import numpy as np
import safetensors.numpy
import safetensors.torch
import tensorkv
import zstandard

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest

import torch
from tensorkv.torch import Publisher, Reader
from tensorkv.torch.deltas import export_deltas, import_deltas

INDEX = "model.safetensors.index.json"


def reader_of_sglang():
    """SGLang's own reader of these directories, where it is installed."""
    try:
        return importlib.import_module("sglang.srt.weight_sync.local_checkpoint")
    except ImportError:
        return None


SGLANG = reader_of_sglang()


def bytes_of(tensor):
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def adler32(data):
    return f"{zlib.adler32(data):08x}"


def xor(before, after):
    a, b = (np.frombuffer(each, np.uint8) for each in (before, after))
    return (a ^ b).tobytes()


def overwrite(before, after):
    a, b = (np.frombuffer(each, np.uint8) for each in (before, after))
    (places,) = np.nonzero(a != b)
    count = np.array([places.size], "<u4")
    return count.tobytes() + places.astype("<u4").tobytes() + b[places].tobytes()


class DirectoryTest(StoreTest):

    def setUp(self):
        self.client = tensorkv.Client.embedded()
        self.addCleanup(self.client.close)
        self.random = np.random.default_rng(7)
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.directory = os.path.join(folder, "deltas")
        self.checkpoint = os.path.join(folder, "checkpoint")
        self.folder = folder
        os.mkdir(self.checkpoint)
        with open(os.path.join(self.checkpoint, "config.json"), "w") as file:
            file.write("{}")

    def any_state(self):
        """Any bits of many dtypes, with NaNs of all kinds, and signed zeros."""

        def bits(dtype, *shape):
            size = torch.empty(shape, dtype=dtype).numel()
            size *= torch.empty((), dtype=dtype).element_size()
            raw = torch.from_numpy(
                self.random.integers(0, 256, size, dtype=np.uint8)
            )
            return raw.view(dtype).reshape(shape)

        return {
            "bf16": bits(torch.bfloat16, 1000),
            "f32": bits(torch.float32, 30, 5),
            "f16": bits(torch.float16, 7),
            "i64": bits(torch.int64, 3),
            "i8": bits(torch.int8, 1),
            "scalar": bits(torch.float64),
            "empty": torch.empty(0, 3),
            "bool": torch.tensor([True, False]),
        }

    def changed(self, state):
        """A state of which a few elements have other bits."""
        after = {name: tensor.clone() for name, tensor in state.items()}
        for name in ("bf16", "f32", "scalar"):
            raw = after[name].reshape(-1).view(torch.uint8)
            for place in self.random.integers(0, raw.numel(), 5):
                raw[place] ^= 255
        return after

    def save_checkpoint(self, state):
        safetensors.torch.save_file(
            state, os.path.join(self.checkpoint, "model.safetensors")
        )

    def path(self, version, name=INDEX):
        return os.path.join(self.directory, f"weight_v{version:06d}", name)

    def index(self, version):
        with open(self.path(version)) as file:
            return json.load(file)

    def write_version(
        self, version, before, after, encode=xor, checksum=adler32, **metadata
    ):
        """What slime writes, by its documentation."""
        os.makedirs(os.path.dirname(self.path(version)))
        deltas, checksums = {}, {}
        for name, tensor in after.items():
            new, old = bytes_of(tensor), bytes_of(before[name])
            if new != old:
                packed = zstandard.ZstdCompressor(1).compress(encode(old, new))
                deltas[name] = np.frombuffer(packed, np.uint8)
                checksums[name] = checksum(new)
        file = "model-00000-of-00001.safetensors"
        safetensors.numpy.save_file(
            deltas, self.path(version, file), metadata=checksums
        )
        index = {
            "metadata": {
                "version": f"{version:06d}",
                "base_version": f"{version - 1:06d}",
                "delta_encoding": encode.__name__,
                "compression_format": "zstd",
                "checksum_format": "adler32",
                **metadata,
            },
            "weight_map": dict.fromkeys(deltas, file),
        }
        with open(self.path(version), "w") as index_file:
            json.dump(index, index_file)

    def assert_state(self, actual, expected):
        self.assertEqual(actual.keys(), expected.keys())
        for name, tensor in expected.items():
            self.assertEqual(actual[name].dtype, tensor.dtype, name)
            self.assertEqual(actual[name].shape, tensor.shape, name)
            self.assertEqual(bytes_of(actual[name]), bytes_of(tensor), name)


class ExportTest(DirectoryTest):

    def setUp(self):
        super().setUp()
        self.publisher = Publisher(self.client, keep_last=2)

    def export(self, state, number=None, client=None):
        self.publisher.publish(state, number)
        return export_deltas(
            client or self.client, self.directory, self.checkpoint
        )

    def test_what_was_exported_is_imported_to_the_bit(self):
        states = [self.any_state()]
        self.save_checkpoint(states[0])
        for number in (10, 20, 30):
            states.append(self.changed(states[-1]))
            self.export(states[-1], number)

        for version in (1, 3):
            imported = import_deltas(
                self.client,
                self.directory,
                self.checkpoint,
                series="imported",
                version=version,
            )

            self.assertEqual(imported, version)
            fetched = Reader(self.client, "imported").fetch(number=version)
            self.assert_state(fetched, states[version])

    def test_a_version_is_what_the_format_says(self):
        before = self.any_state()
        after = self.changed(before)
        self.save_checkpoint(before)

        self.assertEqual(self.export(after, 5), 1)

        (file,) = set(self.index(1)["weight_map"].values())
        self.assertEqual(
            sorted(os.listdir(os.path.dirname(self.path(1)))),
            sorted([file, INDEX]),
        )
        metadata = self.index(1)["metadata"]
        for name, value in (
            ("version", "000001"),
            ("base_version", "000000"),
            ("delta_encoding", "xor"),
            ("compression_format", "zstd"),
            ("checksum_format", "adler32"),
        ):
            self.assertEqual(metadata[name], value)
        deltas = safetensors.numpy.load_file(self.path(1, file))
        self.assertEqual(sorted(deltas), ["bf16", "f32", "scalar"])
        with safetensors.safe_open(self.path(1, file), "np") as opened:
            checksums = opened.metadata()
        for name, delta in deltas.items():
            new = bytes_of(after[name])
            changes = zstandard.ZstdDecompressor().decompress(delta.tobytes())
            self.assertEqual(xor(bytes_of(before[name]), changes), new)
            self.assertEqual(checksums[name], adler32(new))

    def test_no_version_is_written_twice(self):
        state = self.any_state()
        self.save_checkpoint(state)
        for _ in range(2):
            self.assertEqual(self.export(state), 1)
        self.assertEqual(self.index(1)["weight_map"], {})
        self.assertEqual(self.export(self.changed(state)), 2)
        self.assertEqual(os.listdir(self.directory).sort(), None)

    def assert_whole(self, version, state):
        self.assertNotIn("delta_encoding", self.index(version)["metadata"])
        self.assertTrue(os.path.exists(self.path(version, "config.json")))
        whole = safetensors.torch.load_file(
            self.path(version, "model.safetensors")
        )
        self.assert_state(whole, state)

    def test_a_version_without_a_base_is_whole(self):
        first = self.any_state()
        self.save_checkpoint({"others": torch.ones(3)})
        self.export(first)
        self.assert_whole(1, first)

        # Tensors come and go.
        second = {**self.changed(first), "new": torch.ones(3)}
        self.export(second)
        self.assert_whole(2, second)

        # The state before is let go.
        self.publisher.publish(self.changed(second))
        third = self.changed(second)
        self.export(third)
        self.assert_whole(3, third)

        self.export(self.changed(third))
        self.assertIn("delta_encoding", self.index(4)["metadata"])

    def test_another_state_of_that_number_is_no_base(self):
        state = self.any_state()
        self.save_checkpoint(state)
        self.export(self.changed(state), 1)
        other = tensorkv.Client.embedded()
        self.addCleanup(other.close)
        self.publisher = Publisher(other, keep_last=2)
        self.publisher.publish(self.changed(state), 1)
        last = self.changed(state)
        self.assertEqual(self.export(last, client=other), 2)
        self.assert_whole(2, last)

    def test_what_a_writer_that_was_killed_has_left_is_replaced(self):
        state = self.any_state()
        self.save_checkpoint(state)
        partial = os.path.join(self.directory, ".weight_v000001")
        os.makedirs(partial)
        with open(os.path.join(partial, "junk"), "w"):
            pass
        self.assertEqual(self.export(self.changed(state)), 1)
        self.assertEqual(os.listdir(self.directory), ["weight_v000001"])
        self.assertFalse(os.path.exists(self.path(1, "junk")))

    @unittest.skipUnless(SGLANG, "there is no sglang")
    def test_sglang_applies_what_was_exported(self):
        state = self.any_state()
        self.save_checkpoint(state)
        local = os.path.join(self.folder, "local")
        for number in range(1, 6):
            state = self.changed(state)
            if number == 4:
                state["new"] = torch.ones(3)
            self.export(state)
            SGLANG.pull(local, self.checkpoint, self.directory, number)
            self.assertIn("config.json", os.listdir(local))
            path = os.path.join(local, "model.safetensors")
            self.assert_state(safetensors.torch.load_file(path), state)


class ImportTest(DirectoryTest):

    def setUp(self):
        super().setUp()
        self.states = [self.any_state()]
        self.save_checkpoint(self.states[0])

    def write_next(self, **options):
        self.states.append(self.changed(self.states[-1]))
        version = len(self.states) - 1
        self.write_version(
            version, self.states[-2], self.states[-1], **options
        )
        return version

    def bring_in(self, checkpoint=True, **options):
        return import_deltas(
            self.client,
            self.directory,
            self.checkpoint if checkpoint else None,
            **options,
        )

    def assert_imported(self, version):
        fetched = Reader(self.client).fetch(number=version)
        self.assert_state(fetched, self.states[version])

    def test_all_encodings_are_read(self):
        self.assertEqual(self.bring_in(), 0)
        for encode in (xor, overwrite):
            self.write_next(encode=encode)
            version = self.write_next(encode=encode)
            self.assertEqual(self.bring_in(), version)
            self.assert_imported(version)

    @unittest.skipUnless(importlib.util.find_spec("xxhash"), "no xxhash")
    def test_the_checksum_that_slime_has_unless_told_is_read(self):
        import xxhash

        self.write_next(
            checksum=xxhash.xxh3_128_hexdigest, checksum_format="xxh3-128"
        )
        self.bring_in()
        self.assert_imported(1)

    def test_it_goes_on_from_what_the_series_has(self):
        self.write_next()
        self.bring_in()
        # So that they cannot be read again.
        shutil.rmtree(os.path.dirname(self.path(1)))
        shutil.rmtree(self.checkpoint)
        self.write_next()
        self.write_next()
        self.assertEqual(self.bring_in(checkpoint=False), 3)
        self.assert_imported(3)
        self.assertEqual(self.bring_in(), 3)

    def test_it_begins_with_the_last_whole_checkpoint(self):
        self.write_next()
        self.states.append(self.any_state())
        os.makedirs(os.path.dirname(self.path(2)))
        safetensors.torch.save_file(
            self.states[2], self.path(2, "model.safetensors")
        )
        self.write_next()
        shutil.rmtree(os.path.dirname(self.path(1)))
        self.assertEqual(self.bring_in(checkpoint=False), 3)
        self.assert_imported(3)

    def test_a_checkpoint_may_have_several_files(self):
        os.remove(os.path.join(self.checkpoint, "model.safetensors"))
        weight_map = {}
        for i, (name, tensor) in enumerate(self.states[0].items()):
            weight_map[name] = f"model-{i}.safetensors"
            path = os.path.join(self.checkpoint, weight_map[name])
            safetensors.torch.save_file({name: tensor}, path)
        others = os.path.join(self.checkpoint, "others.safetensors")
        safetensors.torch.save_file({"others": torch.ones(3)}, others)
        with open(os.path.join(self.checkpoint, INDEX), "w") as file:
            json.dump({"metadata": {}, "weight_map": weight_map}, file)
        self.write_next()
        self.bring_in()
        self.assert_imported(1)

    def test_without_a_whole_checkpoint_it_says_so(self):
        self.write_next()
        with self.assertRaisesRegex(
            tensorkv.InvalidArgumentError, "got deltas alone"
        ):
            self.bring_in(checkpoint=False)

    def test_a_version_that_is_not_written_to_its_end_is_not_there(self):
        self.write_next()
        self.write_next()
        os.remove(self.path(2))
        self.assertEqual(self.bring_in(), 1)

    def test_a_directory_begun_anew_is_another_series(self):
        for _ in range(2):
            self.write_next()
        self.bring_in()
        shutil.rmtree(os.path.dirname(self.path(2)))
        with self.assertRaisesRegex(
            tensorkv.FailedPreconditionError, "another series"
        ):
            self.bring_in()

    def test_what_is_damaged_is_not_published(self):
        for message, damage in {
            "checksum is another": {"checksum": lambda _: "00000000"},
            "against 7": {"base_version": "000007"},
            "no delta of it|size": {"encode": lambda old, new: b"123"},
            "expected xor, overwrite, got 'sum'": {"delta_encoding": "sum"},
            "expected zstd, got 'lz4'": {"compression_format": "lz4"},
            "expected adler32.*'md5'": {"checksum_format": "md5"},
        }.items():
            with self.subTest(message):
                if "encode" in damage:
                    damage["delta_encoding"] = "xor"
                shutil.rmtree(self.directory, ignore_errors=True)
                self.write_version(
                    1, self.states[0], self.changed(self.states[0]), **damage
                )
                with self.assertRaisesRegex(
                    (tensorkv.DataLossError, tensorkv.InvalidArgumentError),
                    message,
                ):
                    self.bring_in()
                self.assertEqual(self.client.snapshots(), [])

    def test_files_that_are_damaged_are_named(self):
        version = self.write_next()
        file = self.path(version, "model-00000-of-00001.safetensors")
        for path, content in (
            (file, b"\0" * 40),
            (self.path(version), b'{"metadata": {"delta_encoding": "xor"}}'),
            (self.path(version), b"{"),
        ):
            with open(path, "wb") as opened:
                opened.write(content)
            with self.assertRaisesRegex(
                tensorkv.DataLossError, "weight_v000001"
            ):
                self.bring_in()


if __name__ == "__main__":
    unittest.main()
