#!/usr/bin/env python3
"""Prints the numbers that philox_test.cpp expects.

    python tests/core/philox_reference.py

Philox4x32-10 written from the paper (Salmon et al., SC 2011), checked against the known answers that the authors
publish with Random123.  Stream names enter as XXH3-64 hashes, given here as computed by the Python package xxhash.
"""

import math

MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


KNOWN_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([MASK] * 4, [MASK] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
STREAMS = {"": 0x2D06800538D394C2, "data/epoch-0": 0xA1DFA2F9075946C3}


def split(word):
    return [word & MASK, word >> 32]


def main():
    for counter, key, expected in KNOWN_ANSWERS:
        assert philox(counter, key) == expected
    for seed, name, index in [(0, "", 0), (1234567890123456789, "data/epoch-0", 5_000_000_000)]:
        words = philox(split(index) + split(STREAMS[name]), split(seed))
        bits = words[1] << 32 | words[0]
        other = words[3] << 32 | words[2]
        radius = math.sqrt(-2 * math.log(((bits >> 11) + 1) / 2**53))
        print(f"seed {seed} stream {name!r} draw {index}")
        print("  block  ", ", ".join(f"0x{word:08X}" for word in words))
        print(f"  bits    0x{bits:016X}")
        print(f"  uniform {(bits >> 11) / 2**53!r}")
        print(f"  normal  {radius * math.cos(2 * math.pi * ((other >> 11) / 2**53))!r}")
        print(f"  below 1000: {bits * 1000 >> 64}")
    order = list(range(10))
    for i in range(10, 1, -1):
        words = philox(split(10 - i) + split(STREAMS["data/epoch-0"]), split(7))
        j = (words[1] << 32 | words[0]) * i >> 64
        order[i - 1], order[j] = order[j], order[i - 1]
    print("permutation of 10, seed 7, stream 'data/epoch-0':", order)


if __name__ == "__main__":
    main()
