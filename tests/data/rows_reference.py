#!/usr/bin/env python3
"""The data order of smelt/data/rows.h, written a second time; prints what rows_test.cpp expects.

    pip install xxhash && python rows_reference.py
"""

import xxhash

MASK = 0xFFFFFFFF


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., 2011)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def permutation(seed, name, n):
    stream = xxhash.xxh3_64_intdigest(name.encode())
    order = list(range(n))
    for i in range(n, 1, -1):
        draw = n - i
        counter = (draw & MASK, draw >> 32, stream & MASK, stream >> 32)
        words = philox(counter, (seed & MASK, seed >> 32))
        at = ((words[1] << 32 | words[0]) * i) >> 64
        order[i - 1], order[at] = order[at], order[i - 1]
    return order


def rows(documents, pool, seed, length, epoch):
    order = permutation(seed, f"documents/{pool}/{epoch}", len(documents))
    stream = [token for d in order for token in documents[d]]
    count = len(stream) // length
    order = permutation(seed, f"rows/{pool}/{epoch}", count)
    return [stream[r * length : (r + 1) * length] for r in order]


texts = [[3, 4, 5], [6], [7, 8], [9, 10, 11, 12], []]
stored = [[1, *text, 2] for text in texts]
both = [row for epoch in range(2) for row in rows(stored, "stable", 42, 5, epoch)]
print("".join(" ".join(map(str, row)) + " | " for row in both))
