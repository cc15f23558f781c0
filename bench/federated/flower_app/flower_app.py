"""An app of Flower whose clients give back the arrays that they get.

With TENSORKV_TARGET in the environment arrays go by tensorkv.flower.
"""

import os
import time

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import ServerApp

if "TENSORKV_TARGET" in os.environ:
    from tensorkv.flower import ClientApp, FedAvg
else:
    from flwr.clientapp import ClientApp
    from flwr.serverapp.strategy import FedAvg

server = ServerApp()
client = ClientApp()


@client.train()
def train(message, context):
    content = {
        "arrays": message.content["arrays"],
        "metrics": MetricRecord({"num-examples": 1}),
    }
    return Message(RecordDict(content), reply_to=message)


class Marking(FedAvg):
    """FedAvg, which writes down when a round has ended."""

    marks = ""

    def aggregate_train(self, server_round, replies):
        made = super().aggregate_train(server_round, replies)
        with open(self.marks, "a") as file:
            file.write(f"{time.time()}\n")
        return made


@server.main()
def main(grid, context):
    config = context.run_config
    size = config["megabytes"] * 10**6 // 4
    arrays = ArrayRecord({"w": Array(np.ones(size, "float32"))})
    strategy = Marking(
        fraction_evaluate=0.0,
        min_train_nodes=config["clients"],
        min_available_nodes=config["clients"],
    )
    strategy.marks = config["marks"]
    strategy.start(grid, arrays, num_rounds=config["rounds"])
