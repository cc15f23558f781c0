"""Parts of torch_test.py that have several processes.

  torch_processes.py ADDRESS NAMESPACE

  hook      2 workers of one module
  publish   examples/publish_weights.py with a reader

They are one program, since to import PyTorch takes longer than most of them.
Prints "PART passed" where that is so.
"""

import contextlib
import os
import re
import runpy
import signal
import sys
import tempfile
import traceback

import tensorkv
import torch
from tensorkv.torch import MeanGradients

NUM_WORKERS = 2


@contextlib.contextmanager
def in_processes(count, work):
    """Runs work(i) in `count` processes, until the block has ended and they."""
    children = []
    for i in range(count):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(i)
                status = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(status)
        children.append(child)
    try:
        yield
    except BaseException:
        for child in children:
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        ends = [os.waitpid(child, 0)[1] for child in children]
    assert not any(ends), f"statuses {ends}"


def hook(address, namespace):
    def module():
        torch.manual_seed(0)
        layers = [torch.nn.Linear(300, 300) for _ in range(6)]
        return torch.nn.Sequential(*layers, torch.nn.Linear(300, 3))

    def loss_of(trained, step, worker):
        generator = torch.Generator().manual_seed(10 * step + worker)
        inputs = torch.randn(8, 300, generator=generator)
        return (trained(inputs) - inputs[:, :3]).square().mean()

    def work(rank):
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"file://{meeting}/group",
            rank=rank,
            world_size=NUM_WORKERS,
        )
        kv = tensorkv.create(
            "dist_sync",
            target=address,
            namespace=namespace,
            num_workers=NUM_WORKERS,
        )
        single, shared = module(), module()
        # There are several buckets: the first takes 1 MiB, all have 2.2 MB.
        shared = torch.nn.parallel.DistributedDataParallel(
            shared, bucket_cap_mb=0.1
        )
        shared.register_comm_hook(MeanGradients(kv), MeanGradients.hook)
        optimizers = [
            torch.optim.SGD(each.parameters(), lr=0.05)
            for each in (single, shared)
        ]
        for step in range(6):
            for optimizer in optimizers:
                optimizer.zero_grad()
            losses = [loss_of(single, step, i) for i in range(NUM_WORKERS)]
            (sum(losses) / NUM_WORKERS).backward()
            loss_of(shared, step, rank).backward()
            for optimizer in optimizers:
                optimizer.step()
        for expected, actual in zip(single.parameters(), shared.parameters()):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
        keys = kv.client.keys("gradients/")
        print(f"worker {rank}: buckets {keys}")
        assert len(keys) > 1
        # Those of the first step, which were of other sizes, are gone.
        sizes = [int(key.rpartition("/")[2]) for key in keys]
        assert sum(sizes) == sum(p.numel() for p in single.parameters())
        kv.barrier()
        kv.close()

    with tempfile.TemporaryDirectory() as meeting:
        with in_processes(NUM_WORKERS, work):
            pass


def run_examples(*commands):
    """Runs examples at the same time, as they stand; what they print."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{i}" for i in range(len(commands))]

        def run(i):
            name, *sys.argv[1:] = commands[i]
            with open(files[i], "w") as file:
                with contextlib.redirect_stdout(file):
                    runpy.run_path(f"examples/{name}", run_name="__main__")

        with in_processes(len(commands), run):
            pass
        texts = []
        for each in files:
            with open(each) as file:
                texts.append(file.read())
        return texts


def publish(address, namespace):
    options = [f"--target={address}", f"--series={namespace}"]
    trained, read = run_examples(
        ["publish_weights.py", "train", *options],
        ["publish_weights.py", "read", "--bfloat16", *options],
    )
    published = re.findall("number ([0-9]+): trained", trained)
    assert len(published) == 5, trained
    errors = dict(re.findall("number ([0-9]+): off by ([0-9.]+)", read))
    assert {*errors} <= {*published}, read
    assert float(errors[published[-1]]) < 0.1, read


def main(address, namespace):
    torch.set_num_threads(1)
    for part in (hook, publish):
        # They fork, and so must come before any client of their process.
        own = f"{namespace}-{part.__name__}"
        with contextlib.suppress(AssertionError):
            with in_processes(1, lambda _: part(address, own)):
                pass
            print(part.__name__, "passed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
