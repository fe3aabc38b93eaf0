"""Installs the torch-free half into a folder of its own, builds tests/install/consumer against it and runs both.

The KV cache is counted by hand (2 x KV width x layers), the law evaluated here, and the FLOPs must be those that the
installed program prints.
"""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SMELT_SOURCE_DIR"])
BUILD = Path(os.environ["SMELT_BUILD_DIR"])
CMAKE = os.environ.get("CMAKE_COMMAND", "cmake")
CONFIG = {
    "model_type": "qwen3_moe",
    "vocab_size": 256,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "moe_intermediate_size": 32,
    "num_experts": 4,
    "num_experts_per_tok": 2,
}


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


class Consumer(unittest.TestCase):
    def test_builds_and_agrees(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            prefix = folder / "prefix"
            run(CMAKE, "--install", BUILD, "--prefix", prefix, "--component", "plain")
            for header in ("error.h", "fields.h"):
                self.assertTrue((prefix / "include/smelt/core" / header).exists())
            # Nothing of LibTorch may be needed, so none is named.
            clean = {key: value for key, value in os.environ.items() if key not in ("CMAKE_PREFIX_PATH", "Torch_DIR")}
            run(CMAKE, "-S", SOURCE / "tests/install/consumer", "-B", folder / "build", "-G", "Unix Makefiles",
                f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release", env=clean)
            run(CMAKE, "--build", folder / "build", env=clean)
            config = folder / "config.json"
            config.write_text(json.dumps(CONFIG))
            flops, kv_elements, loss = map(float, run(folder / "build/consumer", config).split())

            self.assertEqual(kv_elements, 2 * (2 * 16) * 3)
            expected = 1.4439 + 1.366e3 * (1 - 0.95) ** 0.1530 / 1.33e9**0.3703 + 1.975e6 / 50e9**0.6594
            self.assertAlmostEqual(loss, expected, delta=1e-12)
            printed = json.loads(run(prefix / "bin/smelt", "budget", config, "--json"))
            self.assertIn(flops, list(numbers(printed)))

            libraries = run("ldd", folder / "build/consumer") + run("ldd", prefix / "bin/smelt")
            self.assertNotRegex(libraries, r"libtorch|libc10|not found")

    @unittest.skipUnless((BUILD / "bin/smelt-torch").exists(), "built without LibTorch")
    def test_installed_programs_find_libtorch(self):
        with tempfile.TemporaryDirectory() as prefix:
            for component in ("plain", "torch"):
                run(CMAKE, "--install", BUILD, "--prefix", prefix, "--component", component)
            clean = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
            text = run(Path(prefix) / "bin/smelt", "check", SOURCE / "tests/data/cases/baseline", env=clean)
            self.assertIn("1 of 1 cases passed", text)


def numbers(value):
    """Every number of a JSON value, at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, (int, float)):
        yield float(value)


if __name__ == "__main__":
    unittest.main()
