"""Order by hash, held-out documents, caps and shares, against numbers worked out by hand."""

import hashlib
import unittest
from dataclasses import dataclass

import support  # noqa: F401

from choose import document_hash, fill, held_out_count, share_out, split_and_cap


@dataclass(frozen=True)
class Item:
    hash: int
    bytes: int
    evaluation_bytes: int


def items(*permille, size=100):
    return [Item(int(value / 1000 * 2**64), size, min(size, 160)) for value in permille]


class Choose(unittest.TestCase):
    def test_hash(self):
        self.assertEqual(
            f"{document_hash('é'):016x}", hashlib.sha256("é".encode()).hexdigest()[:16]
        )

    def test_held_out(self):
        self.assertEqual(held_out_count([]), 0)
        self.assertEqual(held_out_count([item.hash for item in items(500, 900)]), 1)
        self.assertEqual(held_out_count([item.hash for item in items(1, 19, 21, 500)]), 2)

    def test_fill(self):
        self.assertEqual([fill([5, 5, 5], cap) for cap in (0, 1, 5, 6, 99)], [0, 1, 1, 2, 3])

    def test_split_and_cap(self):
        documents = items(1, 5, 10, 19, 100, 200, 300, 400, 500)
        training, evaluation = split_and_cap(documents, 5000)
        self.assertEqual(evaluation, documents[:1])  # 2 % of 5000 = 100 bytes
        self.assertEqual(training, documents[4:])  # held out, but not for evaluation: unused
        training, evaluation = split_and_cap(documents, 350)
        self.assertEqual((training, evaluation), (documents[4:7], documents[:1]))

    def test_small_is_part_of_large(self):
        documents = items(*[7 * n for n in range(140)])
        small, large = split_and_cap(documents, 2000), split_and_cap(documents, 9000)
        for part in (0, 1):
            self.assertEqual(small[part], large[part][: len(small[part])])
        self.assertFalse(set(small[0]) & set(large[1]))

    def test_shares(self):
        caps = {"a": 100, "b": 300, "c": 200}
        plenty = dict.fromkeys(caps, 10**6)
        self.assertEqual(share_out(caps, plenty, {}), caps)
        # c's 200 go to a and b as 1 : 3
        self.assertEqual(share_out(caps, plenty, {"c": 200}), {"a": 150, "b": 450})
        # b holds 310 only: takes 10, a the other 190
        held = {"a": 10**6, "b": 310, "c": 0}
        self.assertEqual(share_out(caps, held, {"c": 200}), {"a": 290, "b": 310})
        # nobody has more
        self.assertEqual(share_out(caps, {"a": 90, "b": 300}, {"c": 200}), {"a": 100, "b": 300})


if __name__ == "__main__":
    unittest.main()
