"""budget, match and plan from outside: their JSON and what they refuse."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SMELT_SOURCE_DIR"])
SMELT = Path(os.environ["SMELT_BUILD_DIR"]) / "bin" / "smelt"
BASELINE = str(SOURCE / "examples/baseline.json")


def smelt(*arguments, **options):
    return subprocess.run([str(SMELT), *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)


def result(*arguments):
    done = smelt(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Budget(unittest.TestCase):
    def test_json_has_the_keys_others_rely_on(self):
        found = result("budget", BASELINE, "--attended", 392)
        self.assertEqual(found["schema"], "smelt.budget/1")
        self.assertLessEqual({"total", "active", "executed", "embedding", "terms"}, set(found["parameters"]))
        self.assertLessEqual({"training", "forward", "six_n", "full_context", "terms"}, set(found["flops_per_token"]))
        self.assertLessEqual({"elements_per_token", "bytes_per_token"}, set(found["kv_cache"]))
        self.assertIn("sparsity", found)
        self.assertIn("executed_layers", found)
        for kind, total in (("parameters", "total"), ("flops_per_token", "training")):
            self.assertEqual(sum(term["count"] for term in found[kind]["terms"]), found[kind][total])

    def test_attended_positions_come_from_where_they_are_asked(self):
        self.assertEqual(result("budget", BASELINE, "--document-tokens", 783)["flops_per_token"]["attended"], 392)
        self.assertEqual(result("budget", BASELINE)["attended_source"], "the paper's")
        self.assertEqual(smelt("budget", BASELINE, "--attended", 5, "--document-tokens", 5).returncode, 2)

    def test_cache_types(self):
        bytes_of = {name: result("budget", BASELINE, "--cache-type", name)["kv_cache"]["bytes_per_token"]
                    for name in ("f32", "bf16", "fp8")}
        self.assertEqual(bytes_of["f32"], 2 * bytes_of["bf16"])
        self.assertEqual(bytes_of["bf16"], 2 * bytes_of["fp8"])

    def test_the_papers_table_agrees(self):
        cells = result("budget", "--paper")["cells"]
        self.assertEqual(len(cells), 32)
        self.assertEqual(sum(cell["agrees"] for cell in cells), 28)
        self.assertTrue(all(cell["words"] for cell in cells if not cell["agrees"]))

    def test_bad_configs_are_one_line_per_problem(self):
        good = json.loads(Path(BASELINE).read_text())
        cases = [({"hidden_size": 0}, "hidden_size: expected at least 1"),
                 ({"hidden_size": -8}, "hidden_size: expected at least 1"),
                 ({"num_attention_heads": 7}, "num_attention_heads: expected a multiple"),
                 ({"head_dim": 33}, "head_dim: expected an even number"),
                 ({"num_experts_per_tok": 10 ** 6}, "num_experts_per_tok: expected at most num_experts"),
                 ({"loop": {"first": 1, "last": 99}}, "loop: expected a span inside the layers"),
                 ({"loop": {"first": 1, "last": 2, "visits": 0}}, "loop.visits: expected at least 1"),
                 ({"hidden_size": 10 ** 18}, "hidden_size: expected at least 1 and at most"),
                 ({"hiden_size": 3}, 'unknown key "hiden_size"; did you mean "hidden_size"?')]
        for change, message in cases:
            with self.subTest(change=change), tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "config.json"
                file.write_text(json.dumps(good | change))
                done = smelt("budget", file)
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr)
                self.assertIn(str(file), done.stderr)
        for text, message in [('{"a": NaN}', "broken JSON"), ('{"a": 1e999}', "broken JSON"),
                              ('{"a": 1, "a": 2}', 'key "a" is there twice')]:
            with self.subTest(text=text), tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "config.json"
                file.write_text(text)
                done = smelt("budget", file)
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr)


class Match(unittest.TestCase):
    def test_json_has_the_keys_others_rely_on(self):
        found = result("match", BASELINE)
        self.assertEqual(found["schema"], "smelt.match/1")
        self.assertLessEqual({"baseline", "matched", "mismatch", "within_tolerance", "alternatives"}, set(found))
        self.assertEqual(set(found["mismatch"]), {"flops", "parameters", "kv_cache"})
        self.assertEqual(found["matched"]["model_type"], "smelt")
        self.assertEqual(found, result("match", BASELINE), "the same question, the same answer")

    def test_the_papers_cells(self):
        found = result("match", "--paper")
        self.assertEqual(len(found["cells"]), 12)
        self.assertGreater(found["seconds"], 0)
        for cell in found["cells"]:
            self.assertLessEqual(abs(cell["mismatch"]["flops"]), 0.005)
            self.assertLessEqual(abs(cell["mismatch"]["parameters"]), 0.005)
            self.assertLessEqual(abs(cell["mismatch"]["kv_cache"]), 0.009)
            self.assertLessEqual({"scale", "experts", "published", "matched"}, set(cell))
        found = result("match", "--paper", "--head-dim-multiple", 8, "--tolerance", "kv_cache=0.036")
        for cell in found["cells"]:
            self.assertLessEqual(abs(cell["mismatch"]["kv_cache"]), 0.036)
            self.assertEqual(cell["matched"]["head_dim"] % 8, 0)

    def test_a_matched_file_costs_what_its_baseline_costs(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "smelt.json"
            self.assertEqual(smelt("match", BASELINE, "--out", out).returncode, 0)
            off = result("budget", out, "--baseline", BASELINE)["mismatch"]
            self.assertLessEqual(max(map(abs, off.values())), 0.01)

    def test_wrong_flags_are_wrong_usage(self):
        for flags in (["--multiple", "hiden=3"], ["--multiple", "hidden"], ["--tolerance", "flops=x"],
                      ["--tolerance", "flops=2"], ["--bounds", "hidden=1:0.5"], ["--bounds", "hidden=1"],
                      ["--fix", "head_dim=7"], ["--head-dim-multiple", 3], ["--ablate", "width"], ["--visits", 0]):
            with self.subTest(flags=flags):
                done = smelt("match", BASELINE, *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def test_what_is_asked_is_kept(self):
        found = result("match", BASELINE, "--multiple", "experts=8", "--multiple", "hidden=64", "--fix", "head_dim=64")
        self.assertEqual(found["matched"]["num_experts"] % 8, 0)
        self.assertEqual(found["matched"]["hidden_size"] % 64, 0)
        self.assertEqual(found["matched"]["head_dim"], 64)


class Plan(unittest.TestCase):
    def test_cost_power_and_suggestion(self):
        with tempfile.TemporaryDirectory() as folder:
            endpoints = Path(folder) / "endpoints.csv"
            rows = [f"{arm},a,{seed},1e6,{tokens},{loss + 0.01 * seed * (arm == 'smelt')}"
                    for arm in ("baseline", "smelt") for seed in (1, 2, 3) for tokens, loss in ((1e6, 4.0), (2e6, 3.8))]
            endpoints.write_text("\n".join(["arch,cell,seed,flops_per_token,tokens,loss", *rows]) + "\n")
            found = result("plan", SOURCE / "configs/overnight.toml", "--endpoints", endpoints, "--gain", 0.1,
                           "--flops-per-second", 1e12, "--price", 2, "--budget", 1e16)
        self.assertEqual(found["schema"], "smelt.plan/1")
        self.assertAlmostEqual(found["device_hours"], found["flops"]["total"] / 1e12 / 3600)
        self.assertAlmostEqual(found["price"], 2 * found["device_hours"])
        self.assertGreater(found["power"]["detectable_gap"], 0)
        self.assertGreaterEqual(found["power"]["seeds_needed"], 2)
        self.assertEqual(len(found["suggested_horizons"]["steps"]), 4)
        for cell in found["cells"]:
            for arm in ("baseline", "smelt"):
                self.assertGreater(cell["memory"][arm]["total"], 0)

    def test_one_seed_says_that_the_noise_is_not_known(self):
        endpoints = SOURCE / "tests/data/law/example_endpoints.csv"
        found = result("plan", SOURCE / "configs/overnight.toml", "--endpoints", endpoints)
        self.assertIn("no cell has two seeds", found["power"]["words"])

    def test_less_is_kept_when_layers_are_recomputed(self):
        total = lambda *flags: result("plan", SOURCE / "configs/paper.toml", *flags)["cells"][-1]["memory"]["smelt"]["total"]
        self.assertLess(total("--recompute", "layer"), total())
        self.assertLess(total("--devices", 8), total())

    def test_a_price_needs_a_throughput(self):
        done = smelt("plan", SOURCE / "configs/quick.toml", "--price", 2)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--price needs --flops-per-second", done.stderr)


if __name__ == "__main__":
    unittest.main()
