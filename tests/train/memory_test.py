"""What `smelt plan` says of a step's memory is what the step takes."""

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["SMELT_BUILD_DIR"])

RUN = """schema = "smelt.run/1"
[model]
vocab_size = 340
hidden_size = 128
num_hidden_layers = {layers}
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 32
moe_intermediate_size = 64
num_experts = 32
num_experts_per_tok = {chosen}
{loop}
[data]
store = "store"
row_length = 256
[train]
rows = {rows}
micro_rows = {micro_rows}
recompute = "{recompute}"
"""
LOOP = "[model.loop]\nfirst = 2\nlast = 3\nvisits = 2"
# One after another by the name of what they change.
STEPS = {
    "plain": {},
    "many tokens": {"rows": 48},
    "looped": {"loop": LOOP, "rows": 32},
    "the loop recomputed": {"loop": LOOP, "rows": 32, "recompute": "loop"},
    "every layer recomputed": {"loop": LOOP, "rows": 32, "recompute": "layer"},
    "in parts": {"layers": 8, "rows": 32, "micro_rows": 8},
    "more experts a token": {"chosen": 8, "rows": 24},
}


def smelt(folder, *arguments):
    done = subprocess.run([str(BUILD / "bin/smelt"), *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Memory(unittest.TestCase):
    def test_of_a_step_is_planned_to_a_tenth(self):
        with tempfile.TemporaryDirectory() as name:
            folder, pick = Path(name), random.Random(1)
            words = [f"{a}{b}" for a in "bcdfghjklm" for b in ("ake", "oin", "ush", "ert", "all", "ond")]
            with open(folder / "text.jsonl", "w") as out:
                for _ in range(1500):
                    text = " ".join(pick.choice(words) for _ in range(pick.randint(20, 200)))
                    out.write(json.dumps({"text": text, "source": "made", "domain": "prose"}) + "\n")
            smelt(folder, "data", "build", "text.jsonl", "--out", "store", "--vocab-size", 340)
            for what, changed in STEPS.items():
                step = {"layers": 4, "chosen": 4, "loop": "", "rows": 8, "micro_rows": 0, "recompute": "none"} | changed
                (folder / "run.toml").write_text(RUN.format(**step))
                timing = json.loads(smelt(folder, "train", "run.toml", "--time-steps", 3, "--json"))
                with self.subTest(what):
                    self.assertAlmostEqual(timing["planned_bytes"] / timing["peak_rss_bytes"], 1, delta=0.1)


if __name__ == "__main__":
    unittest.main()
