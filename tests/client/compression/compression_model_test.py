#!/usr/bin/env python3
"""The encodings of tensor.proto, modelled from its comments alone.

Usage: compression_model_test.py ENCODE_MAIN

Every encoding gets a few pushes with error feedback. The payloads, and what the
server makes of them, must be those of the model, bit by bit. Arithmetic is that
of f32: a double holds the exact sum, difference or product of two f32, or
enough digits of their quotient, so that rounding it gives the right f32.
"""

import math
import random
import struct
import subprocess
import sys

NUM_ELEMENTS = 1037
NUM_PUSHES = 4
THRESHOLD = 0.5


def f32(x):
    return struct.unpack('<f', struct.pack('<f', x))[0]


def pack(numbers, letter='f'):
    return struct.pack('<%d%s' % (len(numbers), letter), *numbers)


def philox(counter, key, word=0):
    x = [counter & 0xffffffff, counter >> 32, 0, 0]
    k = [key & 0xffffffff, key >> 32]
    for _ in range(10):
        a = 0xD2511F53 * x[0]
        b = 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k[0], b & 0xffffffff,
             (a >> 32) ^ x[3] ^ k[1], a & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return x[word]


def seed_of(push):
    return (ord('w') * 0x100000001b3 + push) & 0xffffffffffffffff


def codes(values, bits):
    """Codes of some bits each, the first in the highest."""
    text = ''.join(format(value, '0%db' % bits) for value in values)
    text += '0' * (-len(text) % 8)
    return bytes(int(text[i:i + 8], 2) for i in range(0, len(text), 8))


def padded(data):
    return data + bytes(-len(data) % 8)


# Each returns the payload and what it decodes to.


def two_bit(p, _):
    out = [THRESHOLD if x >= THRESHOLD else -THRESHOLD if x <= -THRESHOLD else 0
           for x in p]
    return codes([3 if x > 0 else 2 if x < 0 else 0 for x in out], 2), out


def one_bit(p, _):
    high = [x > THRESHOLD for x in p]
    return codes(high, 1), [1.0 if h else -1.0 for h in high]


def sign(p, _):
    total = 0.0
    for x in p:
        total += abs(x)
    scale = f32(total / len(p))
    high = [x >= 0 for x in p]
    return codes(high, 1), [scale if h else -scale for h in high]


def top_k(fraction):
    def encode(p, _):
        count = max(1, int(fraction * len(p)))
        order = sorted(range(len(p)), key=lambda i: (-abs(p[i]), i))
        places = sorted(order[:count])
        out = [0.0] * len(p)
        for i in places:
            out[i] = p[i]
        return padded(pack(places, 'I')) + pack([p[i] for i in places]), out
    return encode


def random_k(size):
    def encode(p, push):
        out = [0.0] * len(p)
        values = []
        for block, first in enumerate(range(0, len(p), size)):
            length = min(size, len(p) - first)
            place = first + (philox(block, seed_of(push)) * length >> 32)
            values.append(p[place])
            out[place] = p[place]
        return pack(values), out
    return encode


def chance_of(i, push):
    """Lanes of 8 calls: first the first words of all, then the second ones."""
    group, place = divmod(i, 32)
    word, lane = divmod(place, 8)
    bits = philox(group * 8 + lane, seed_of(push), word) >> 8
    return bits * 2.0 ** -24


def dithering(bits, natural, l2):
    def encode(p, push):
        s = 2 ** (bits - 1) - 1
        norm = max(abs(x) for x in p)
        if l2:
            squares = 0.0
            for x in p:
                squares += x * x
            norm = f32(math.sqrt(squares))
        step = f32(norm / s)
        values, out = [], []
        for i, x in enumerate(p):
            chance = chance_of(i, push)
            ratio = min(f32(abs(x) / norm), 1.0)
            if natural and ratio >= 2.0 ** (1 - s):
                mantissa, exponent = math.frexp(ratio)
                level = exponent - 1 + s + (chance < 2 * mantissa - 1)
            else:
                exact = ratio * 2.0 ** (s - 1) if natural else f32(ratio * s)
                level = int(exact) + (chance < exact - int(exact))
            level = min(level, s)
            size = f32(step * level)
            if natural:
                size = f32(norm * 2.0 ** (level - s)) if level > 0 else 0.0
            negative = math.copysign(1, x) < 0
            values.append((negative << (bits - 1)) | level)
            out.append(-size if negative else size)
        return codes(values, bits), out
    return encode


def float_values(exponent_bits, mantissa_bits, finite_only):
    """The finite values of a small float by their bits, without the sign."""
    bias = 2 ** (exponent_bits - 1) - 1
    values = []
    for bits in range(2 ** (exponent_bits + mantissa_bits)):
        exponent = bits >> mantissa_bits
        mantissa = bits & (2 ** mantissa_bits - 1)
        top = exponent == 2 ** exponent_bits - 1
        if top and (not finite_only or mantissa == 2 ** mantissa_bits - 1):
            break
        leading = 2 ** mantissa_bits if exponent > 0 else 0
        values.append((mantissa + leading)
                      * 2.0 ** (max(exponent, 1) - bias - mantissa_bits))
    return values


class SmallFloat:

    def __init__(self, *layout):
        self.values = float_values(*layout)
        self.largest = self.values[-1]
        self.sign = 2 ** (layout[0] + layout[1])
        self.bytes = 'B' if self.sign == 0x80 else 'H'

    def narrow(self, x):
        magnitude = min(abs(x), self.largest)
        low, high = 0, len(self.values) - 1
        while low < high:  # the last value that is not above
            middle = (low + high + 1) // 2
            if self.values[middle] <= magnitude:
                low = middle
            else:
                high = middle - 1
        if low + 1 < len(self.values):
            up = self.values[low + 1] - magnitude
            down = magnitude - self.values[low]
            low += up < down or (up == down and low % 2 == 1)
        return low | (self.sign if math.copysign(1, x) < 0 else 0)

    def widen(self, bits):
        value = self.values[bits & (self.sign - 1)]
        return -value if bits & self.sign else value


class Int8:
    largest = 127

    def narrow(self, x):
        return round(max(-127.0, min(127.0, x))) & 0xff

    def widen(self, bits):
        return float(bits - 256 if bits > 127 else bits)


F16 = SmallFloat(5, 10, False)
F8E4M3FN = SmallFloat(4, 3, True)
F8E5M2 = SmallFloat(5, 2, False)


def cast(dtype):
    def encode(p, _):
        bits = [dtype.narrow(x) for x in p]
        return pack(bits, dtype.bytes), [dtype.widen(b) for b in bits]
    return encode


def bf16(p, _):
    bits = []
    for x in p:
        word = struct.unpack('<I', struct.pack('<f', x))[0]
        bits.append((word + 0x7fff + (word >> 16 & 1)) >> 16)
    out = [struct.unpack('<f', struct.pack('<I', b << 16))[0] for b in bits]
    return pack(bits, 'H'), out


def blocks(dtype, size):
    def encode(p, _):
        scales, elements, out = [], [], []
        for first in range(0, len(p), size):
            block = p[first:first + size]
            scale = f32(max(abs(x) for x in block) / dtype.largest) or 1.0
            scales.append(scale)
            for x in block:
                bits = dtype.narrow(f32(x / scale))
                elements.append(bits)
                out.append(f32(scale * dtype.widen(bits)))
        return padded(pack(scales)) + bytes(elements), out
    return encode


MODELS = {
    '2bit:0.5': two_bit,
    '1bit:0.5': one_bit,
    'sign': sign,
    'topk:0.01': top_k(0.01),
    'topk:0.5': top_k(0.5),
    'topk:0.0001': top_k(0.0001),
    'randomk:0.1': random_k(10),
    'randomk:1': random_k(1),
    'dithering:2': dithering(2, False, False),
    'dithering:4': dithering(4, False, False),
    'dithering:8': dithering(8, False, False),
    'dithering:8,l2': dithering(8, False, True),
    'dithering:2,natural': dithering(2, True, False),
    'dithering:4,natural': dithering(4, True, False),
    'dithering:8,natural,l2': dithering(8, True, True),
    'i8:100': blocks(Int8(), 100),
    'f8e4m3fn:64': blocks(F8E4M3FN, 64),
    'f8e5m2:1037': blocks(F8E5M2, 1037),
    'f16,feedback': cast(F16),
    'bf16,feedback': bf16,
    'f8e4m3fn': cast(F8E4M3FN),
    'f8e5m2': cast(F8E5M2),
}


def run(program, name, pushes):
    """The payload and the decoded bytes of each push."""
    result = subprocess.run(
        [program, name, str(NUM_ELEMENTS), str(len(pushes))],
        input=b''.join(pack(push) for push in pushes),
        stdout=subprocess.PIPE, check=True)
    data = result.stdout
    at = 0
    for _ in pushes:
        size = struct.unpack_from('<I', data, at)[0]
        payload = data[at + 4:at + 4 + size]
        at += 4 + size
        yield payload, data[at:at + 4 * NUM_ELEMENTS]
        at += 4 * NUM_ELEMENTS
    assert at == len(data)


def check(program, name, encode, pushes):
    residual = [0.0] * NUM_ELEMENTS
    for number, (payload, decoded) in enumerate(run(program, name, pushes)):
        total = [f32(r + g) for r, g in zip(residual, pushes[number])]
        expected_payload, expected = encode(total, number)
        assert payload == expected_payload, (name, number, 'payload')
        assert decoded == pack(expected), (name, number, 'decoded')
        residual = [f32(p - q) for p, q in zip(total, expected)]


def main():
    numbers = random.Random(1)
    scale = lambda: 10.0 ** numbers.uniform(-6, 1)
    pushes = [[f32(numbers.gauss(0, scale())) for _ in range(NUM_ELEMENTS)]
              for _ in range(NUM_PUSHES)]
    pushes[0][:4] = [0.0, -0.0, THRESHOLD, -THRESHOLD]
    pushes[0][500:900] = [2.0, -2.0] * 200  # of equal magnitudes
    pushes[1][300:500] = [0.0] * 200
    for name, encode in MODELS.items():
        check(sys.argv[1], name, encode, pushes)
    print('%d encodings agree with their models' % len(MODELS))


if __name__ == '__main__':
    main()
