"""tensorkv.torch beside PyTorch's own optimizers, and among processes."""

import contextlib
import copy
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import ADDRESS, StoreTest, new_namespace

import torch
from tensorkv.federated import FedAvg, FedYogi
from tensorkv.torch import (
    FederatedAveraging,
    MeanGradients,
    Publisher,
    Reader,
    StoreOptimizer,
)

STEPS = 30


# PyTorch has one generator for all threads.
seeding = threading.Lock()


def network(seed=0):
    with seeding:
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)
        )


def batch(step, worker=0):
    generator = torch.Generator().manual_seed(1000 * step + worker)
    inputs = torch.randn(16, 6, generator=generator)
    return inputs, torch.sin(inputs[:, :3])


def loss_of(module, step, worker=0):
    inputs, targets = batch(step, worker)
    return torch.nn.functional.mse_loss(module(inputs), targets)


def train(module, optimizer, scheduler=None, worker=0):
    """The losses of STEPS steps."""
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(module, step, worker)
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


OPTIMIZERS = [
    (torch.optim.SGD, dict(lr=0.1)),
    (torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
    (
        torch.optim.SGD,
        dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    (torch.optim.SGD, dict(lr=0.1, momentum=0.8, dampening=0.3)),
    (torch.optim.SGD, dict(lr=0.1, weight_decay=0.1)),
    (torch.optim.Adam, dict(lr=0.01)),
    (torch.optim.Adam, dict(lr=0.01, weight_decay=0.1, betas=(0.8, 0.9))),
    (torch.optim.Adam, dict(lr=0.01, amsgrad=True)),
    (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1, eps=1e-6)),
    (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1, amsgrad=True)),
    (torch.optim.Adagrad, dict(lr=0.05, lr_decay=0.1, weight_decay=0.01)),
    (torch.optim.Adadelta, dict(lr=1.0, weight_decay=0.01)),
    (torch.optim.Adamax, dict(lr=0.01, weight_decay=0.01)),
    (torch.optim.RMSprop, dict(lr=0.01, weight_decay=0.01)),
    (torch.optim.RMSprop, dict(lr=0.01, momentum=0.5, centered=True)),
]


class StoreOptimizerTest(StoreTest):

    def assert_same_curve(self, make, schedule=None, store=None):
        """Trains with PyTorch's optimizer, and with the store in its place."""
        own, served = network(), network()
        optimizer = make(own)
        expected = train(own, optimizer, schedule and schedule(optimizer))
        store = store or self.open("local")
        optimizer = StoreOptimizer(make(served), store)
        actual = train(served, optimizer, schedule and schedule(optimizer))
        self.assertLess(expected[-5:].mean(), expected[:5].mean())
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)

    def test_losses_are_those_of_the_optimizer_it_replaces(self):
        for kind, arguments in OPTIMIZERS:
            with self.subTest(kind.__name__, **arguments):
                self.assert_same_curve(
                    lambda module: kind(module.parameters(), **arguments)
                )

    def test_adam_may_decouple_its_weight_decay(self):
        arguments = dict(lr=0.01, weight_decay=0.1)
        losses = []
        for kind in (torch.optim.AdamW, torch.optim.Adam):
            module = network()
            optimizer = kind(module.parameters(), **arguments)
            # Newer versions of PyTorch have this as an argument.
            optimizer.param_groups[0]["decoupled_weight_decay"] = True
            optimizer = StoreOptimizer(optimizer, self.open("local"))
            losses.append(train(module, optimizer))
        self.assertTrue(torch.equal(*losses))

    def test_losses_of_a_group_without_rounds_are_the_same(self):
        self.assert_same_curve(
            lambda module: torch.optim.Adam(module.parameters(), lr=0.01),
            store=self.open("dist_async"),
        )

    def test_schedulers_and_groups_reach_the_store(self):
        def make(module):
            return torch.optim.SGD(
                [
                    {"params": module[0].parameters(), "lr": 0.1},
                    {"params": module[2].parameters(), "weight_decay": 0.1},
                ],
                lr=0.05,
                momentum=0.9,
            )

        self.assert_same_curve(
            make,
            lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
                optimizer, max_lr=[0.2, 0.1], total_steps=STEPS
            ),
        )

    def test_two_workers_train_as_one_with_both_batches(self):
        def make(module):
            return torch.optim.Adam(module.parameters(), lr=0.01)

        own = network()
        optimizer = make(own)
        for step in range(STEPS):
            optimizer.zero_grad()
            ((loss_of(own, step, 0) + loss_of(own, step, 1)) / 2).backward()
            optimizer.step()

        def work(store):
            module = network(seed=store.rank)  # that of rank 0 counts
            optimizer = StoreOptimizer(make(module), store)
            train(module, optimizer, worker=store.rank)
            return module.state_dict()

        states = self.together(self.open_group("dist_sync", 2), work)

        self.assertTrue(equal(*states))
        for name, tensor in own.state_dict().items():
            torch.testing.assert_close(
                states[0][name], tensor, rtol=1e-4, atol=1e-5
            )

    def test_groups_have_folders_of_keys(self):
        module, kv = network(), self.open("local")
        StoreOptimizer(
            torch.optim.SGD(
                [
                    {"params": module[0].parameters()},
                    {"params": module[2].parameters()},
                ],
                lr=0.1,
            ),
            kv,
            named_parameters=module[2].named_parameters(),
        )
        self.assertEqual(
            kv.client.keys(),
            ["model/0/0", "model/0/1", "model/1/bias", "model/1/weight"],
        )
        names = {"0": module[2].bias}.items()
        with self.assertRaises(tensorkv.InvalidArgumentError):
            StoreOptimizer(
                torch.optim.SGD(module.parameters(), lr=0.1),
                self.open("local"),
                named_parameters=names,
            )

    def test_what_no_rule_stands_for_is_refused(self):
        class Adam(torch.optim.SGD):
            """It is not the Adam that it is called."""

        module = network()
        parameters = list(module.parameters())
        stepped = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        loss_of(module, 0).backward()
        stepped.step()
        for optimizer in (
            torch.optim.Rprop(parameters),
            torch.optim.Adagrad(parameters, initial_accumulator_value=1),
            Adam(parameters, lr=0.1),
            stepped,
        ):
            with self.assertRaises(tensorkv.UnimplementedError):
                StoreOptimizer(optimizer, self.open("local"))
        fresh = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        optimizer = StoreOptimizer(fresh, self.open("local"))
        with self.assertRaises(tensorkv.UnimplementedError):
            optimizer.load_state_dict(stepped.state_dict())
        optimizer.load_state_dict(optimizer.state_dict())

    def test_sparse_gradients_are_refused_before_any_is_pushed(self):
        module = torch.nn.ModuleList(
            [torch.nn.Linear(2, 2), torch.nn.Embedding(5, 2, sparse=True)]
        )
        optimizer = StoreOptimizer(
            torch.optim.SGD(module.parameters(), lr=0.1), self.open("local")
        )
        module[0](module[1](torch.tensor([1]))).sum().backward()
        with self.assertRaisesRegex(tensorkv.UnimplementedError, "model/2"):
            optimizer.step()
        self.assertEqual(optimizer._store.client.stat("model/0").version, 1)

    def test_a_change_that_did_not_reach_the_store_is_told_again(self):
        expected, module = network(), network()
        own = torch.optim.SGD(expected.parameters(), lr=0.1)
        optimizer = StoreOptimizer(
            torch.optim.SGD(module.parameters(), lr=0.1), self.open("local")
        )
        for each in (own, optimizer):
            each.param_groups[0]["lr"] = 0.5
        for each in (expected, module):
            loss_of(each, 0).backward()
        with unittest.mock.patch.object(
            optimizer._store.client,
            "set_hyperparameters",
            side_effect=tensorkv.UnavailableError("away"),
        ):
            with self.assertRaises(tensorkv.UnavailableError):
                optimizer.step()
        own.step()
        optimizer.step()
        for a, b in zip(expected.parameters(), module.parameters()):
            torch.testing.assert_close(a, b)

    def test_parameters_without_gradient_stay(self):
        module = network()
        before = copy.deepcopy(module[0].state_dict())
        optimizer = StoreOptimizer(
            torch.optim.SGD(module.parameters(), lr=0.1),
            self.open("local"),
            named_parameters=module.named_parameters(),
        )
        module[2](torch.ones(8)).sum().backward()
        optimizer.step()

        self.assertTrue(equal(module[0].state_dict(), before))
        stored = optimizer._store.pull("model/2.weight")
        self.assert_array(stored, module[2].weight.detach().numpy())


class PublishingTest(StoreTest):

    def setUp(self):
        namespace = new_namespace()
        self.client = self.open_client(namespace=namespace)
        self.client.create_namespace(namespace)
        # Weights may be published beside those that an optimizer updates.
        self.client.set_rule("adam")
        self.publisher = Publisher(self.client)
        self.reader = Reader(self.open_client(namespace=namespace))

    def state(self, value=0.0):
        """All kinds of tensors."""
        return {
            "half": torch.full((3,), value, dtype=torch.float16),
            "brain": torch.full((2, 2), value, dtype=torch.bfloat16),
            "weight": torch.full((4, 5), value).t(),
            "wide": torch.tensor(value, dtype=torch.float64),
            "count": torch.tensor(3),
            "mask": torch.tensor([True, False]),
            "empty": torch.zeros(0, 4),
        }

    def test_states_come_as_they_were_published(self):
        numbers = []
        for value in (1.5, 2.5):
            numbers.append(self.publisher.publish(self.state(value)))
            fetched = self.reader.fetch()
            self.assertTrue(equal(fetched, self.state(value)))
            self.assertEqual(self.reader.number, numbers[-1])
            for name, tensor in self.state(value).items():
                self.assertEqual(fetched[name].dtype, tensor.dtype)
        self.assertLess(*numbers)

    def test_a_module_is_filled_in_place(self):
        trained, served = network(1), network(2)
        weight = served[0].weight
        self.publisher.publish(trained)
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            served.to(dtype)
            self.reader.fetch(into=served)
            for name, tensor in trained.state_dict().items():
                self.assertTrue(
                    torch.equal(served.state_dict()[name], tensor.to(dtype))
                )
        self.assertIs(served[0].weight, weight)

    def test_floats_are_converted_on_the_way(self):
        state = self.state(1 / 3)
        self.publisher.publish(state)
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            fetched = self.reader.fetch(dtype=dtype)
            for name, tensor in state.items():
                if tensor.is_floating_point():
                    tensor = tensor.to(dtype)
                self.assertTrue(torch.equal(fetched[name], tensor), name)

    def test_floats_are_published_narrower(self):
        state = self.state(1 / 3)
        self.publisher.publish(state, dtype=torch.bfloat16)
        fetched = self.reader.fetch()
        for name in ("weight", "brain", "wide"):
            self.assertTrue(
                torch.equal(fetched[name], state[name].to(torch.bfloat16))
            )
        for name in ("half", "count", "mask"):
            self.assertTrue(torch.equal(fetched[name], state[name]))

    def test_a_state_may_have_other_tensors_than_the_last(self):
        self.publisher.publish({"a": torch.ones(2), "b": torch.ones(3)})
        self.reader.fetch()
        for state in (
            {"a": torch.ones(2), "c": torch.zeros(1)},
            {"a": torch.ones(5, dtype=torch.int32)},
        ):
            self.publisher.publish(state)
            into = {name: torch.empty_like(t) for name, t in state.items()}
            self.reader.fetch(into=into)
            self.assertTrue(equal(into, state))
            self.assertTrue(equal(self.reader.fetch(), state))
        # The keys of former states are gone.
        self.assertEqual(self.client.keys(), ["published/a"])

    def test_nothing_is_filled_where_something_does_not_fit(self):
        self.publisher.publish({"a": torch.ones(2), "b": torch.ones(3)})
        for odd in ({"b": torch.zeros(4)}, {"c": torch.zeros(3)}):
            into = {"a": torch.zeros(2), **odd}
            with self.assertRaises(tensorkv.InvalidArgumentError):
                self.reader.fetch(into=into)
            self.assertTrue(torch.equal(into["a"], torch.zeros(2)))

    def test_a_publisher_that_starts_again_goes_on(self):
        first = self.publisher.publish({"a": torch.ones(2), "b": torch.ones(1)})
        again = Publisher(self.client)
        self.assertGreater(again.publish({"a": torch.zeros(2)}), first)
        self.assertTrue(equal(self.reader.fetch(), {"a": torch.zeros(2)}))
        self.assertEqual(self.client.keys(), ["published/a"])

    def test_workers_publish_beside_what_they_train(self):
        kv = self.open("dist_sync")
        module = network()
        optimizer = StoreOptimizer(
            torch.optim.Adam(module.parameters(), lr=0.01), kv
        )
        publisher, reader = Publisher(kv), Reader(kv)
        for step in range(3):
            loss_of(module, step).backward()
            optimizer.step()
            publisher.publish(module)
            self.assertTrue(equal(reader.fetch(), module.state_dict()))
            stored = kv.pull("model/0")
            self.assert_array(stored, module[0].weight.detach().numpy())

    def test_publishers_and_optimizers_leave_each_others_keys_alone(self):
        def optimizer(name):
            parameters = network().parameters()
            return StoreOptimizer(
                torch.optim.SGD(parameters, lr=0.1), kv, name=name
            )

        kv = self.open("dist_sync")
        optimizer("model")
        before = kv.client.stat(kv.client.keys())
        with self.assertRaises(tensorkv.FailedPreconditionError):
            Publisher(kv, "model").publish(network())
        self.assertEqual(kv.client.stat(kv.client.keys()), before)
        Publisher(kv, "other").publish(network())
        with self.assertRaises(tensorkv.FailedPreconditionError):
            optimizer("other")

    def test_deltas_publish_what_wholes_do(self):
        publisher = Publisher(self.client, deltas=True)
        state = {"w": torch.ones(100_000), **self.state(1.0)}
        sent = []
        for step in range(5):
            number = publisher.publish(state)
            self.assertTrue(equal(self.reader.fetch(), state))
            self.assertEqual(self.reader.number, number)
            sent.append(publisher.bytes_sent)
            # In place, as optimizers do.
            state["w"][step] = 7
        self.assertGreater(sent[1], 2 * 400_000)
        self.assertLess(sent[4] - sent[1], 10_000)

    def test_what_deltas_cannot_say_goes_whole(self):
        publisher = Publisher(self.client, deltas=True)
        for state in (
            {"a": torch.ones(2000), "b": torch.ones(3)},
            {"a": torch.zeros(2000), "b": torch.ones(3)},
            {"a": torch.zeros(2000)},
            {"a": torch.zeros(2000)},
            {"a": torch.zeros(20, 100)},
            {"a": torch.zeros(20, 100)},
            {"a": torch.zeros(20, 100, dtype=torch.bfloat16)},
        ):
            publisher.publish(state)
            self.assertTrue(equal(self.reader.fetch(), state))
        # Somebody else is in between.
        state = {"a": torch.ones(20, 100)}
        for _ in range(3):
            publisher.publish(state)
        self.client.push("published/a", torch.full((20, 100), 5.0))
        publisher.publish(state)
        self.assertTrue(equal(self.reader.fetch(), state))
        self.client.delete(["published/a"])
        with self.assertRaises(tensorkv.NotFoundError):
            publisher.publish(state)
        publisher.publish(state)
        self.assertTrue(equal(self.reader.fetch(), state))

    def test_deltas_replace_what_they_cannot_change(self):
        client = self.client
        publisher = Publisher(client, deltas=True)
        state = {"a": torch.full((2000,), 3.0)}

        def publish(change):
            for _ in range(3):
                publisher.publish(state)
            change()
            state["a"][0] += 1
            for _ in range(3):
                publisher.publish(state)
                self.assertTrue(equal(self.reader.fetch(), state))

        publish(
            lambda: client.init(
                "published/a",
                torch.zeros(2000, dtype=torch.bfloat16),
                on_existing="replace",
            )
        )
        publish(lambda: client.set_rule("accumulate", key_pattern="*/*"))
        publish(lambda: client.set_rule("accumulate", key_pattern="published/*"))

    def test_deltas_are_for_the_mode_async(self):
        kv = self.open("dist_sync")
        with self.assertRaisesRegex(tensorkv.InvalidArgumentError, "async"):
            Publisher(kv, deltas=True).publish({"a": torch.ones(2)})

    def test_what_is_no_tensor_is_refused(self):
        with self.assertRaisesRegex(TypeError, "'lr'"):
            self.publisher.publish({"w": torch.ones(2), "lr": 0.1})
        with self.assertRaisesRegex(TypeError, "complex64"):
            self.publisher.publish({"w": torch.ones(2, dtype=torch.complex64)})


class GroupsTest(StoreTest):

    def federated(self, modules, **options):
        """A group that is complete, and has the first one's state."""
        namespace = new_namespace()
        return [
            FederatedAveraging(
                module,
                self.open_client(namespace=namespace, timeout=60),
                num_clients=len(modules),
                **options,
            )
            for module in modules
        ]

    def test_federated_averaging_takes_the_weighted_mean(self):
        modules = [network(seed) for seed in range(3)]
        start = copy.deepcopy(modules[0].state_dict())
        group = self.federated(modules)

        def work(averaging):
            i = group.index(averaging)
            with torch.no_grad():
                for tensor in modules[i].parameters():
                    tensor.add_(1.0 + i)
            return averaging.average(weight=[3, 1, 0][i])

        self.assertEqual(self.together(group, work), [True] * 3)
        for module in modules:
            for name, tensor in module.state_dict().items():
                torch.testing.assert_close(tensor, start[name] + 1.25)

    def test_buffers_become_the_mean_beside_an_optimizer(self):
        for dtype in (torch.float32, torch.bfloat16):
            layers = torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)
            module = torch.nn.Sequential(*layers).to(dtype)
            with self.subTest(dtype):
                self.check_buffers([module, copy.deepcopy(module)])

    def check_buffers(self, modules):
        dtype = modules[0][0].weight.dtype
        group = self.federated(modules, optimizer=FedYogi(10.0))
        own = {}

        def work(averaging):
            i = group.index(averaging)
            module = modules[i]
            for _ in range(1 + 4 * i):
                module(torch.randn(8, 4, dtype=dtype)).sum().backward()
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.sub_(parameter.grad)
            own[i] = copy.deepcopy(module.state_dict())
            averaging.average(weight=1 + i)

        self.together(group, work)
        self.assertTrue(equal(modules[0].state_dict(), modules[1].state_dict()))
        for name, buffer in modules[0].named_buffers():
            mean = (own[0][name].double() + 2 * own[1][name].double()) / 3
            if not buffer.is_floating_point():
                self.assertEqual(buffer.item(), round(mean.item()))
                continue
            torch.testing.assert_close(buffer, mean.to(dtype))
        self.assertTrue((modules[0][1].running_var > 0).all())

    def test_parameters_that_are_one_are_federated_once(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = torch.nn.Linear(3, 3)
                self.second = torch.nn.Linear(3, 3)
                self.second.weight = self.first.weight
                self.register_buffer("passing", torch.ones(2), persistent=False)

        module = Tied()
        (averaging,) = self.federated([module], optimizer=FedAvg(0.5))
        start = module.first.weight.detach().clone()
        module.double()  # has other tensors since
        module.float()
        with torch.no_grad():
            module.first.weight.add_(2)
        averaging.average()
        self.assertIs(module.first.weight, module.second.weight)
        torch.testing.assert_close(module.first.weight.detach(), start + 1)
        keys = averaging._client.keys()
        self.assertEqual(len(keys), 4, keys)

    def test_what_is_averaged_is_not_compressed(self):
        refused = self.assertRaises(tensorkv.InvalidArgumentError)
        for module, end in (
            (torch.nn.Linear(2, 2), contextlib.nullcontext()),
            (torch.nn.BatchNorm1d(2), refused),
        ):
            (averaging,) = self.federated([module])
            averaging._client.set_compression("i8:128")
            with self.subTest(module), end:
                averaging.average()

    def test_what_makes_no_mean_is_refused(self):
        store = self.open("dist_async")
        with self.assertRaisesRegex(
            tensorkv.InvalidArgumentError, "dist_async"
        ):
            MeanGradients(store)

    def test_a_run_that_is_refused_has_changed_no_rule(self):
        def make(module, lr):
            return torch.optim.SGD(module.parameters(), lr)

        module = network()
        kv = self.open("dist_sync")
        train(module, StoreOptimizer(make(module, lr=0.1), kv))
        kv.leave()
        kv = self.open("dist_sync", namespace=kv.client.namespace)
        rules = kv.client.describe_namespace().rules
        with self.assertRaises(tensorkv.AlreadyExistsError):
            StoreOptimizer(make(module, lr=0.2), kv)
        self.assertEqual(kv.client.describe_namespace().rules, rules)


class HookTest(StoreTest):
    """MeanGradients in a group of one, on all kinds of devices there are."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder.name}/group",
            rank=0,
            world_size=1,
        )
        cls.addClassCleanup(torch.distributed.destroy_process_group)

    def on_each_device(self):
        """Stores, and modules whose gradients meet there."""
        devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
        for device in devices:
            store = self.open("dist_sync", num_workers=1)
            module = torch.nn.parallel.DistributedDataParallel(
                network().to(device)
            )
            state = MeanGradients(store)
            module.register_comm_hook(state, MeanGradients.hook)
            yield store, module

    def test_gradients_are_those_without_a_store(self):
        for _, module in self.on_each_device():
            device = next(module.parameters()).device
            own = network().to(device)
            inputs = batch(0)[0].to(device)
            for each in (own, module):
                each(inputs).square().mean().backward()
            for a, b in zip(own.parameters(), module.parameters()):
                torch.testing.assert_close(a.grad, b.grad)

    def test_errors_of_the_store_come_out_of_the_backward_pass(self):
        for store, module in self.on_each_device():
            device = next(module.parameters()).device
            store.close()
            with self.assertRaisesRegex(RuntimeError, "ClosedError"):
                module(batch(0)[0].to(device)).sum().backward()


class ProcessesTest(unittest.TestCase):
    """They run in processes that fork before they have a client."""

    @classmethod
    def setUpClass(cls):
        program = os.path.join(os.path.dirname(__file__), "torch_processes.py")
        cls.output = subprocess.run(
            [sys.executable, program, ADDRESS, new_namespace()],
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        ).stdout

    def assert_passed(self, part):
        self.assertIn(f"{part} passed\n", self.output)

    def test_gradients_of_distributed_data_parallel_meet_in_the_store(self):
        self.assert_passed("hook")

    def test_readers_of_the_example_use_what_its_trainer_publishes(self):
        self.assert_passed("publish")


if __name__ == "__main__":
    unittest.main()
