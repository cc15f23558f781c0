"""A model of 301 tensors, as a transformer has them, and steps of it."""

import math
import zlib

import torch

LAYERS = 25


class Model:
    """The tensors, which lie one after the other."""

    def __init__(self, megabytes, dtype):
        """`megabytes` is what it would take as f32."""
        elements = int(megabytes * 1e6 / 4)
        # 12 w² and 13 w of each layer, and an embedding of 75 w rows.
        width = max(1, int(math.sqrt(elements / (12 * LAYERS + 75))))
        layer = {
            **{f"{norm}.{kind}": (width,) for norm in ("ln1", "ln2")
               for kind in ("weight", "bias")},
            "qkv.weight": (3 * width, width),
            "qkv.bias": (3 * width,),
            "proj.weight": (width, width),
            "proj.bias": (width,),
            "up.weight": (4 * width, width),
            "up.bias": (4 * width,),
            "down.weight": (width, 4 * width),
            "down.bias": (width,),
        }
        shapes = {
            f"layers.{i}.{name}": shape
            for i in range(LAYERS)
            for name, shape in layer.items()
        }
        size = sum(map(math.prod, shapes.values()))
        rows = max(1, round((elements - size) / width))
        shapes["embedding.weight"] = (rows, width)
        self.flat = torch.zeros(size + rows * width, dtype=dtype)
        parts = self.flat.split([math.prod(s) for s in shapes.values()])
        self.tensors = {
            name: part.view(shape)
            for (name, shape), part in zip(shapes.items(), parts)
        }

    @property
    def size_bytes(self):
        return self.flat.numel() * self.flat.element_size()

    def checksum(self):
        return checksum(self.flat)


class TrainedModel(Model):
    """One that takes steps: its master is f32."""

    def __init__(self, megabytes, dtype):
        super().__init__(megabytes, dtype)
        self._random = torch.Generator().manual_seed(1)
        self._master = torch.empty(self.flat.numel())
        self._master.normal_(0, 0.02, generator=self._random)
        self._noise = None
        self.flat.copy_(self._master)

    def step(self, learning_rate):
        """As Adam does when it is under way: all move by some of the rate."""
        if self._noise is None:
            self._noise = torch.empty_like(self._master)
        self._noise.normal_(0, learning_rate, generator=self._random)
        self._master += self._noise
        self.flat.copy_(self._master)

    def replace(self):
        """Changes each element."""
        self._master *= -1
        self._master[0] += 1
        self.flat.copy_(self._master)


def checksum(tensor):
    return zlib.crc32(bytes_of(tensor))


def bytes_of(tensor):
    """The memory of a tensor, as numpy knows it."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()
