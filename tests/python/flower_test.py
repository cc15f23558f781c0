"""tensorkv.flower beside Flower's own strategies, with the same apps."""

import contextlib
import functools
import importlib.util
import itertools
import os
import sys
import unittest
import unittest.mock

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import ADDRESS, StoreTest, new_namespace

HAS_FLOWER = importlib.util.find_spec("flwr") is not None
if HAS_FLOWER:
    import flwr.clientapp
    import flwr.serverapp.strategy as theirs
    from flwr.app import (
        Array,
        ArrayRecord,
        Context,
        Error,
        Message,
        MetricRecord,
        RecordDict,
    )

    import tensorkv.flower as ours

    # What a process of Flower's runtime is told before it makes messages.
    with contextlib.suppress(ImportError):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1

NODES = 20
ROUNDS = 5
SHAPES = {"weight": (30, 7), "bias": (7,), "scale": ()}


def first_arrays():
    random = np.random.default_rng(1)
    return ArrayRecord(
        {
            name: Array(np.asarray(random.normal(size=shape), "float32"))
            for name, shape in SHAPES.items()
        }
    )


def flat(arrays):
    """The elements of all."""
    return np.concatenate(
        [array.numpy().ravel().astype("f8") for array in arrays.values()]
    )


def make_app(kind, weight_of=lambda step, node: 1 + node):
    """An app whose nodes move in ways of their own, and weigh unequally."""
    app = kind()

    @app.train()
    def train(message, context):
        step = message.content["config"]["server-round"]
        random = np.random.default_rng((step, context.node_id))
        trained = {
            name: Array(
                np.asarray(
                    array.numpy() + random.normal(scale=0.1, size=array.shape),
                    "float32",
                )
            )
            for name, array in message.content["arrays"].items()
        }
        weight = weight_of(step, context.node_id)
        metrics = {"num-examples": weight, "loss": random.random()}
        content = {
            "arrays": ArrayRecord(trained),
            "metrics": MetricRecord(metrics),
        }
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        norm = sum(
            float(np.square(array.numpy(), dtype="f8").sum())
            for array in message.content["arrays"].values()
        )
        metrics = {"num-examples": 1 + context.node_id, "norm": norm}
        return Message(
            RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message
        )

    return app


class Grid:
    """Flower's grid, with all nodes in this process."""

    def __init__(self, app, drops_out=lambda step, node: False):
        self._app = app
        self._drops_out = drops_out
        self.largest = 0

    def get_node_ids(self):
        return list(range(NODES))

    def send_and_receive(self, messages, *, timeout=None):
        return [self._answer(message) for message in messages]

    def _answer(self, message):
        node = message.metadata.dst_node_id
        step = message.content["config"]["server-round"]
        if self._drops_out(step, node):
            return Message(Error(1, "gone"), reply_to=message)
        context = Context(1, node, {}, RecordDict(), {})
        self._note(message)
        reply = self._app(message, context)
        self._note(reply)
        return reply

    def _note(self, message):
        for arrays in message.content.array_records.values():
            size = sum(len(each.data) for each in arrays.values())
            self.largest = max(self.largest, size)


@unittest.skipUnless(HAS_FLOWER, "there is no flwr")
class FlowerTest(StoreTest):

    def strategies(self):
        """Pairs of Flower's and ours."""
        for name, options in (
            ("FedAvg", {}),
            ("FedAvgM", {"server_momentum": 0.9, "server_learning_rate": 0.8}),
            ("FedAdam", {}),
            ("FedYogi", {}),
            ("FedAdagrad", {}),
        ):
            if not hasattr(theirs, name):  # in older versions
                continue
            options = {**options, "fraction_train": 0.8}
            yield name, getattr(theirs, name)(**options), getattr(ours, name)(
                target=ADDRESS, **options
            )

    def test_strategies_make_what_flowers_do(self):
        def drops_out(step, node):
            return (7 * node + step) % 5 == 0

        for name, flowers, own in self.strategies():
            # Flower samples nodes itself.
            flowers.configure_train = self.sampling(flowers.configure_train)
            own.configure_train = self.sampling(own.configure_train)
            grids = [
                Grid(make_app(flwr.clientapp.ClientApp), drops_out),
                Grid(make_app(ours.ClientApp), drops_out),
            ]
            expected, actual = (
                strategy.start(grid, first_arrays(), num_rounds=ROUNDS)
                for strategy, grid in zip((flowers, own), grids)
            )
            with self.subTest(name):
                self.assertEqual(list(actual.arrays), list(SHAPES))
                for array in actual.arrays.values():
                    self.assertEqual(array.dtype, "float32")
                want, got = map(flat, (expected.arrays, actual.arrays))
                np.testing.assert_allclose(got, want, 1e-5, 1e-5)
                self.assertLessEqual(
                    np.linalg.norm(got - want), 1e-6 * np.linalg.norm(want)
                )
                self.assertEqual(
                    actual.train_metrics_clientapp,
                    expected.train_metrics_clientapp,
                )
                for step, metrics in actual.evaluate_metrics_clientapp.items():
                    self.assertAlmostEqual(
                        metrics["norm"],
                        expected.evaluate_metrics_clientapp[step]["norm"],
                        places=3,
                    )
                self.assertEqual(grids[1].largest, 0)

    def test_the_quickstart_runs_with_two_lines_changed(self):
        """Its apps, but for the imports of ClientApp and FedAvg."""
        app = ours.ClientApp()

        @app.train()
        def train(msg, context):
            model = msg.content["arrays"].to_numpy_ndarrays()[0]
            model_record = ArrayRecord([model + 1])
            metrics = MetricRecord({"random_metric": 2.0, "num-examples": 1})
            content = RecordDict({"arrays": model_record, "metrics": metrics})
            return Message(content=content, reply_to=msg)

        @app.evaluate()
        def evaluate(msg, context):
            model = msg.content["arrays"].to_numpy_ndarrays()[0]
            metrics = {"seen": float(model[0, 0]), "num-examples": 1}
            content = RecordDict({"metrics": MetricRecord(metrics)})
            return Message(content=content, reply_to=msg)

        strategy = ours.FedAvg()
        arrays = ArrayRecord([np.ones((2, 2))])
        namespaces = self.open_client().list_namespaces()
        result = strategy.start(
            grid=Grid(app), initial_arrays=arrays, num_rounds=3
        )
        self.assert_array(
            result.arrays.to_numpy_ndarrays()[0], np.full((2, 2), 4.0)
        )
        seen = result.evaluate_metrics_clientapp
        self.assertEqual(
            [round(seen[i]["seen"], 9) for i in (1, 2, 3)], [2, 3, 4]
        )
        after = self.open_client().list_namespaces()
        self.assertEqual(len(after), len(namespaces))

    def test_a_round_that_nobody_came_to_is_over(self):
        grid = Grid(make_app(ours.ClientApp), lambda step, node: step == 1)
        late = []

        def drop_out(message):
            """Comes when the others have gone on, but to the first round."""
            step = message.content["config"]["server-round"]
            if step == 1 and message.metadata.message_type == "train":
                late.append(message)
                return Message(Error(1, "gone"), reply_to=message)
            while late and step == 2:
                context = Context(1, 0, {}, RecordDict(), {})
                with self.assertRaises(tensorkv.AlreadyExistsError):
                    grid._app(late.pop(), context)
            return Grid._answer(grid, message)

        grid._answer = drop_out
        result = ours.FedAvg().start(grid, first_arrays(), num_rounds=2)
        self.assertEqual(list(result.train_metrics_clientapp), [2])
        self.assertGreater(
            np.abs(flat(result.arrays) - flat(first_arrays())).max(), 0.01
        )

    def test_a_namespace_may_be_there_and_have_had_a_run(self):
        """It was made with another quorum, and nodes come and go."""
        namespace = new_namespace()
        client = self.open_client(namespace=namespace)
        client.create_namespace(
            namespace,
            mode="sync",
            aggregation="mean",
            num_workers=NODES,
            quorum=1,
        )
        for _ in range(2):
            expected, actual = (
                make().start(
                    self.growing_grid(app), first_arrays(), num_rounds=3
                )
                for make, app in (
                    (theirs.FedAvg, flwr.clientapp.ClientApp),
                    (
                        functools.partial(
                            ours.FedAvg, target=ADDRESS, namespace=namespace
                        ),
                        ours.ClientApp,
                    ),
                )
            )
            want, got = map(flat, (expected.arrays, actual.arrays))
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)
        models = {key.partition("/")[0] for key in client.keys("run-")}
        self.assertEqual(len(models), 2)

    def growing_grid(self, app):
        """One that has another number of nodes from round to round."""
        grid = Grid(make_app(app))
        counts = itertools.cycle([4, 4, 9, 9, 2, 2])
        grid.get_node_ids = lambda: list(range(next(counts)))
        return grid

    def test_a_round_of_no_weight_whose_replies_are_lost_is_over(self):
        grid = Grid(make_app(ours.ClientApp, lambda step, node: int(step > 1)))
        answer = grid._answer

        def lose_reply(message):
            reply = answer(message)
            step = message.content["config"]["server-round"]
            if step > 1 or message.metadata.message_type != "train":
                return reply
            return Message(Error(1, "lost"), reply_to=message)

        grid._answer = lose_reply
        strategy = ours.FedAvg(target=ADDRESS)
        seen = []
        strategy.start(
            grid,
            first_arrays(),
            num_rounds=2,
            evaluate_fn=lambda step, arrays: seen.append(flat(arrays)),
        )
        np.testing.assert_array_equal(seen[0], seen[1])
        self.assertGreater(np.abs(seen[2] - seen[1]).max(), 0.01)

    def test_a_run_whose_namespace_stays_has_its_result(self):
        strategy = ours.FedAvg(target=ADDRESS)
        with unittest.mock.patch.object(
            strategy._client,
            "delete_namespace",
            side_effect=tensorkv.UnavailableError("away"),
        ), self.assertLogs("tensorkv.flower", "WARNING"):
            result = strategy.start(
                Grid(make_app(ours.ClientApp)), first_arrays(), num_rounds=1
            )
        self.assertEqual(list(result.train_metrics_clientapp), [1])
        strategy._client.delete_namespace(strategy._client.namespace)

    def test_a_reply_without_metrics_is_refused(self):
        app = ours.ClientApp()

        @app.train()
        def train(message, context):
            content = {"arrays": message.content["arrays"]}
            return Message(RecordDict(content), reply_to=message)

        with self.assertRaisesRegex(
            tensorkv.InvalidArgumentError, "one MetricRecord"
        ):
            ours.FedAvg(target=ADDRESS).start(
                Grid(app), first_arrays(), num_rounds=1
            )

    def sampling(self, configure_train):
        """Has the nodes of a round be the same each time."""
        from flwr.serverapp.strategy import strategy_utils

        def configure(server_round, *args):
            strategy_utils.random.seed(server_round)
            return configure_train(server_round, *args)

        return configure


if __name__ == "__main__":
    unittest.main()
