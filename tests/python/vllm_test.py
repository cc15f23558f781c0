"""Weights from a trainer to workers of vLLM, or of its stand-in."""

import os
import subprocess
import sys
import types
import unittest
from unittest import mock

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
import vllm_stand_in
from stores import ADDRESS, StoreTest, new_namespace

vllm_stand_in.install()

import torch
from tensorkv import vllm as tensorkv_vllm
from tensorkv.torch import Publisher
from vllm.distributed.weight_transfer import base, factory
from vllm.model_executor.model_loader import reload

BACKEND = types.SimpleNamespace(backend="tensorkv")


class ServedModel(torch.nn.Module):
    """Loads tensors as checkpoints have them, in halves of one parameter."""

    def __init__(self):
        super().__init__()
        self.both = torch.nn.Parameter(torch.zeros(2, 3))

    def load_weights(self, weights):
        with torch.no_grad():
            for name, tensor in weights:
                self.both[["a", "b"].index(name)] = tensor


def trained(number):
    model = torch.nn.Module()
    model.a = torch.nn.Parameter(torch.full((3,), float(number)))
    model.b = torch.nn.Parameter(torch.full((3,), -float(number)))
    return model


class Fleet:
    """Workers of vLLM, which make the calls that its workers make."""

    def __init__(self, num_workers):
        self.calls = []
        config = types.SimpleNamespace(
            parallel_config=None, model_config="its model_config"
        )
        device = torch.device("cpu")
        self.engines = [
            factory.WeightTransferEngineFactory.create_engine(
                BACKEND, config, device, ServedModel()
            )
            for _ in range(num_workers)
        ]

    def init_weight_transfer_engine(self, init_info):
        self.calls.append("init")
        for engine in self.engines:
            engine.init_transfer_engine(engine.parse_init_info(init_info))

    def start_weight_update(self):
        self.calls.append("start")
        for engine in self.engines:
            engine.start_weight_update()

    def update_weights(self, update_info):
        self.calls.append("update")
        for engine in self.engines:
            engine.update_weights(update_info)

    def finish_weight_update(self, weight_version=None):
        self.calls.append(f"finish {weight_version}")
        for engine in self.engines:
            engine.finish_weight_update()

    def served(self):
        return [engine.model.both.tolist() for engine in self.engines]


class VLLMTest(StoreTest):

    def setUp(self):
        # vLLM may load its plug-ins several times in a process.
        for _ in range(2):
            tensorkv_vllm.register()
        self.reload = mock.Mock()
        for name in ("initialize_layerwise_reload", "finalize_layerwise_reload"):
            call = getattr(self.reload, name)
            patch = mock.patch.object(reload, name, call)
            patch.start()
            self.addCleanup(patch.stop)
        if hasattr(torch, "accelerator"):
            # vLLM waits for one, which there may not be here.
            patch = mock.patch.object(torch.accelerator, "synchronize")
            patch.start()
            self.addCleanup(patch.stop)
        namespace = new_namespace()
        self.store = self.open_client(namespace=namespace)
        self.store.create_namespace(namespace)
        self.client = {"target": ADDRESS, "namespace": namespace}
        self.fleet = Fleet(2)
        for engine in self.fleet.engines:
            self.addCleanup(engine.shutdown)

    def trainer(self, source, rank=0):
        trainer = factory.WeightTransferTrainerFactory.trainer_init(
            tensorkv_vllm.TensorKVTrainerInitInfo(
                rank=rank, series="policy", client=self.client, keep_last=2
            ),
            client=self.fleet,
            source=source,
        )
        self.addCleanup(trainer.shutdown)
        return trainer

    def assert_serves(self, number):
        rows = [[number] * 3, [-number] * 3]
        self.assertEqual(self.fleet.served(), [rows, rows])

    def test_engines_serve_what_the_trainer_sends(self):
        model = trained(1)
        trainer = self.trainer(base.ModuleSource(model))
        trainer.send_weights()
        self.assert_serves(1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(7)
        trainer.send_weights(42)
        self.assert_serves(7)
        self.assertEqual(
            self.fleet.calls,
            ["init"]
            + ["start", "update", "finish 1", "start", "update", "finish 42"],
        )
        model = self.fleet.engines[0].model
        self.assertEqual(
            [call for call in self.reload.mock_calls if call.args[0] is model],
            [
                mock.call.initialize_layerwise_reload(model),
                mock.call.finalize_layerwise_reload(model, "its model_config"),
            ]
            * 2,
        )

    def test_engines_are_told_a_number_by_whoever_publishes(self):
        publisher = Publisher(self.store, "policy", keep_last=2)
        for number in (3, 4):
            publisher.publish(trained(number), number)
        self.fleet.init_weight_transfer_engine(
            {"series": "policy", "client": self.client}
        )
        for number in (4, 3):
            self.fleet.start_weight_update()
            self.fleet.update_weights({"number": number, "timeout": 30})
            self.fleet.finish_weight_update()
            self.assert_serves(number)

    def test_an_update_that_fails_leaves_the_model_as_it_was(self):
        trainer = self.trainer(base.ModuleSource(trained(1)))
        trainer.send_weights()
        for engine in self.fleet.engines:
            engine.start_weight_update()
            with self.assertRaises(tensorkv.SnapshotNotFoundError):
                engine.update_weights({"number": 9})
            # vLLM does not: it forgets an update that has failed.
            self.assertEqual(
                self.reload.mock_calls[-1],
                mock.call.finalize_layerwise_reload(
                    engine.model, engine.model_config
                ),
            )
        self.assert_serves(1)
        trainer.send_weights()
        self.assertEqual(self.fleet.calls[-1], "finish 2")

    def test_an_engine_that_was_not_initialized_says_so(self):
        engine = self.fleet.engines[0]
        with self.assertRaisesRegex(RuntimeError, "init_transfer_engine"):
            engine.update_weights({"number": 1})
        self.trainer(base.ModuleSource(trained(1)))
        engine.shutdown()
        with self.assertRaisesRegex(RuntimeError, "init_transfer_engine"):
            engine.update_weights({"number": 1})

    def test_other_ranks_gather_and_call_nobody(self):
        gathered = []

        class Source:
            metadata = []

            def iter_full(self):
                gathered.append("all")
                return iter([("a", torch.ones(3))])

        self.trainer(Source(), rank=1).send_weights()
        self.assertEqual(gathered, ["all"])
        self.assertEqual(self.fleet.calls, [])
        self.assertEqual(self.store.snapshots(), [])

    def test_a_part_of_a_model_is_not_published(self):
        class Part:
            """A source as vLLM 0.32 has them."""

            def metadata(self):
                return [
                    types.SimpleNamespace(name=name) for name in ("a", "b")
                ]

            def __iter__(self):
                return iter([("a", torch.ones(3)), ("b", None)])

        with self.assertRaisesRegex(ValueError, "got 1 of 2"):
            self.trainer(Part()).send_weights()
        self.assertEqual(self.fleet.calls, ["init"])
        self.assertEqual(self.store.snapshots(), [])
        with self.assertRaisesRegex(ValueError, "expected a WeightSource"):
            self.trainer(None)


class ImportTest(unittest.TestCase):

    def test_tensorkv_imports_no_vllm(self):
        subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, tensorkv, tensorkv.torch\n"
                "assert 'vllm' not in sys.modules",
            ],
            check=True,
        )


if __name__ == "__main__":
    unittest.main()
