"""The real TensorBoard reads the event files of a run that was resumed: every scalar of metrics.jsonl, once."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["SMELT_BUILD_DIR"])
sys.path.insert(0, str(BUILD / "python"))  # scripts/test.sh puts it there

RUN = """
schema = "smelt.run/1"
[model]
vocab_size = 340
hidden_size = 16
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 1
head_dim = 8
moe_intermediate_size = 8
num_experts = 4
num_experts_per_tok = 2
[data]
store = "store"
row_length = 32
[train]
steps = {steps}
rows = 4
warmup_steps = 2
checkpoint_every = 4
router_every = 2
tensorboard = true
"""


def smelt(*arguments):
    done = subprocess.run([str(BUILD / "bin/smelt"), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TensorBoard(unittest.TestCase):
    def test_reads_every_scalar_of_a_resumed_run(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError as error:
            self.skipTest(f"no TensorBoard here: {error}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            words = [f"{a}{b}" for a in "bcdfghjklm" for b in ("ake", "oin", "ush", "ert", "all", "ond")]
            pick = random.Random(1)
            with open(folder / "text.jsonl", "w") as out:
                for i in range(400):
                    text = " ".join(pick.choice(words) for _ in range(40)) + f" {i}."
                    out.write(json.dumps({"text": text, "source": "made", "domain": "prose" if i % 2 else "code"}) + "\n")
            smelt("data", "build", folder / "text.jsonl", "--out", folder / "store", "--vocab-size", 340)
            for steps in (6, 10):
                (folder / "run.toml").write_text(RUN.format(steps=steps))
                smelt("train", folder / "run.toml", "--out", folder / "run")

            lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
            self.assertEqual([line["step"] for line in lines], list(range(1, 11)))
            self.assertEqual(len(list((folder / "run/tensorboard").iterdir())), 2)
            board = EventAccumulator(str(folder / "run/tensorboard"), size_guidance={"scalars": 0})
            board.Reload()
            tags = board.Tags()["scalars"]
            for key in ("loss", "objective", "load_balance", "z_loss", "lr", "grad_norm", "tokens_per_second", "mfu"):
                events = board.Scalars(f"train/{key}")
                self.assertEqual([event.step for event in events], list(range(1, 11)), key)
                for event, line in zip(events, lines):
                    self.assertAlmostEqual(event.value, line[key], delta=1e-6 * max(1, abs(line[key])))
            self.assertEqual(len(board.Scalars("router/layer 2, visit 1/entropy")), 5)
            self.assertTrue(any(tag.startswith("domains/") for tag in tags), tags)


if __name__ == "__main__":
    unittest.main()
