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
        cases = [({"hidden_size": 0}, "hidden_size: expected 1 to 1000000000"),
                 ({"hidden_size": -8}, "hidden_size: expected 1 to 1000000000"),
                 ({"num_attention_heads": 7}, "num_attention_heads: expected a multiple"),
                 ({"head_dim": 33}, "head_dim: expected an even number"),
                 ({"num_experts_per_tok": 10 ** 6}, "num_experts_per_tok: expected at most num_experts"),
                 ({"loop": {"first": 1, "last": 99}}, "loop: expected a span inside the layers"),
                 ({"loop": {"first": 1, "last": 2, "visits": 0}}, "loop.visits: expected 1 to 64"),
                 ({"hidden_size": 10 ** 18}, "hidden_size: expected 1 to 1000000000"),
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


    def test_nan_is_no_number(self):
        study = SOURCE / "configs/quick.toml"
        for verb, *flags in (("budget", BASELINE, "--attended", "nan"), ("budget", BASELINE, "--context", "nan"),
                             ("budget", BASELINE, "--document-tokens", "nan"), ("match", BASELINE, "--attended", "nan"),
                             ("plan", study, "--attended", "nan"), ("plan", study, "--sigma", "nan"),
                             ("plan", study, "--budget", "nan"), ("plan", study, "--flops-per-second", "nan"),
                             ("plan", study, "--price", "nan"), ("plan", study, "--logits-chunk", "nan")):
            with self.subTest(verb=verb, flags=flags):
                done = smelt(verb, *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("got nan", done.stderr)

    def test_a_preset_has_no_vocabulary(self):
        name = "paper/200M-S85-baseline"
        done = smelt("budget", name)
        self.assertIn("vocabulary is not published", done.stdout)
        self.assertNotIn("LM head", done.stdout)
        found = result("budget", name, "--vocab-size", 1000)
        self.assertEqual(found["parameters"]["embedding"], 1280 * (2 * 1000 + 1))
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "smelt.json"
            self.assertEqual(smelt("match", name, "--out", out).returncode, 1)
            self.assertEqual(smelt("match", name, "--out", out, "--vocab-size", 1000).returncode, 0)
            self.assertEqual(json.loads(out.read_text())["vocab_size"], 1000)
            study = Path(folder) / "study.toml"
            study.write_text('[data]\nstore = "none"\n[baseline]\nconfig = "%s"\n[horizons]\nsteps = [10]\n'
                             'decay_steps = 2\n' % name)
            cell = result("plan", study)["cells"][0]
            self.assertEqual(cell["configs"]["baseline"]["vocab_size"], 32768)

    def test_flags_that_have_no_say_are_refused(self):
        for flags in (["budget", "--paper", BASELINE], ["budget", "--paper", "--attended", 3],
                      ["match", "--paper", BASELINE], ["match", "--paper", "--out", "x.json"],
                      ["match", "--paper", "--ablate", "span"], ["match", BASELINE, "--ablate", "span", "--visits", 3],
                      ["match", BASELINE, "--ablate", "depth", "--depth", 3],
                      ["match", BASELINE, "--ablate", "span", "--out", "x.json"],
                      ["plan", SOURCE / "configs/quick.toml", "--gain", 0.1]):
            with self.subTest(flags=flags):
                done = smelt(*flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_empty_and_odd_arguments_are_wrong_usage(self):
        for flags, words in ((["--baseline", ""], "argument 4 is empty"), (["--attended="], "is empty"),
                             (["--vocab-size", "010"], "got 010"), (["--row-length", 128], "requires --store")):
            with self.subTest(flags=flags):
                done = smelt("budget", BASELINE, *flags)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(words, done.stderr)

    def test_configs_as_they_are_found(self):
        cases = [({"model_type": "deepseek_v2", "num_experts_per_tok": 6, "kv_lora_rank": None}, "kv_lora_rank: expected"),
                 ({"model_type": "qwen3_moe", "head_dim": 0}, "head_dim: expected at least 1, got 0"),
                 ({"model_type": "qwen3_moe", "num_key_value_heads": 0}, "num_key_value_heads: expected at least 1"),
                 ({"model_type": "deepseek_v3", "n_group": 7}, "n_group: expected a divisor of the 256 experts"),
                 ({"model_type": "deepseek_v3", "n_group": 8, "topk_group": 9}, "topk_group: expected 1 to n_group = 8"),
                 ({"model_type": "qwen2", "use_mrope": True}, 'key "use_mrope" changes the arithmetic')]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "config.json"
            for config, words in cases:
                with self.subTest(config=config):
                    file.write_text(json.dumps(config))
                    done = smelt("budget", file)
                    self.assertEqual(done.returncode, 1, done.stdout)
                    self.assertIn(words, done.stderr)
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            file.write_text(json.dumps({"model_type": "qwen2", "use_mrope": False}))
            self.assertEqual(smelt("budget", file).returncode, 0)
            file.write_text(json.dumps({"model_type": "deepseek_v3", "n_group": 8, "topk_group": 4}))
            self.assertEqual(result("match", file)["matched"]["num_experts"] % 8, 0)
            # Biases of shared experts: 2 widths of 2 x 1407 and one hidden size in each of 32 sparse layers.
            def biases(mlp_bias):
                file.write_text(json.dumps({"model_type": "deepseek_v2", "num_experts_per_tok": 6, "mlp_bias": mlp_bias}))
                terms = result("budget", file)["parameters"]["terms"]
                return sum(term["count"] for term in terms if term["name"] == "biases")
            self.assertEqual(biases(True) - biases(False), 32 * (2 * 2 * 1407 + 4096))

    def test_a_million_layers_are_counted_in_no_time(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "config.json"
            file.write_text(json.dumps({"model_type": "qwen3_moe", "num_hidden_layers": 10 ** 6,
                                        "decoder_sparse_step": 2}))
            done = subprocess.run([str(SMELT), "budget", str(file)], capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)


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
                      ["--fix", "head_dim=7"], ["--span", 2.5], ["--fix", "hidden_size=100", "--multiple", "hidden=64"],
                      ["--fix", "num_experts=40", "--max-experts", 30], ["--bounds", "hidden=nan:1"], ["--head-dim-multiple", 3], ["--ablate", "width"], ["--visits", 0]):
            with self.subTest(flags=flags):
                done = smelt("match", BASELINE, *flags)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def test_what_this_kind_of_model_does_not_have_is_named(self):
        cases = {"llama": (["--fix", "num_experts=8"], ["--max-experts", 8], ["--multiple", "experts=8"],
                           ["--fix", "moe_intermediate_size=64"], ["--bounds", "experts=1:2"]),
                 "deepseek_v3": (["--fix", "num_key_value_heads=8"], ["--multiple", "kv_heads=2"], ["--depth", 3]),
                 "qwen3_moe": (["--fix", "intermediate_size=64"], ["--fix", "num_experts=3"], ["--span", 40])}
        with tempfile.TemporaryDirectory() as folder:
            for kind, flag_lists in cases.items():
                file = Path(folder) / f"{kind}.json"
                file.write_text(json.dumps({"model_type": kind}))
                for flags in flag_lists:
                    with self.subTest(kind=kind, flags=flags):
                        done = smelt("match", file, *flags)
                        self.assertEqual(done.returncode, 1, done.stdout)
                        named = flags[-1] if flags[0] == "--bounds" else flags[0]
                        self.assertRegex(done.stderr, r"^\[budget\] \w+: ", named)

    def test_nothing_left_says_what_leaves_nothing(self):
        for flags, words in ((["--multiple", "heads=4096"], "no number of query heads"),
                             (["--multiple", "kv_heads=1000"], "no number of KV heads"),
                             (["--fix", "head_dim=1000000"], "no hidden size"),
                             (["--bounds", "hidden=0.0001:0.0002"], "no hidden size"),
                             (["--bounds", "expert_width=0.0001:0.0002"], "no feed-forward width"),
                             (["--bounds", "experts=0.001:0.002"], "no number of experts"),
                             (["--bounds", "hidden=0.01:100", "--bounds", "head_dim=0.01:100", "--bounds", "group=0.01:100",
                               "--bounds", "query=0.01:100"], "more than 20 million geometries")):
            with self.subTest(flags=flags):
                done = smelt("match", BASELINE, *flags)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)

    def test_contradictions_are_wrong_usage(self):
        for flags in (["--head-dim-multiple", 16, "--multiple", "head_dim=8"],
                      ["--fix", "hidden_size=1000", "--fix", "hidden_size=1040"],
                      ["--tolerance", "flops=0.1", "--tolerance", "flops=0.2"], ["--attended", ""]):
            with self.subTest(flags=flags):
                self.assertEqual(smelt("match", BASELINE, *flags).returncode, 2)

    def test_large_and_absurd_models_are_answered(self):
        llama = {"model_type": "llama", "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128,
                 "num_key_value_heads": 8, "intermediate_size": 53248, "vocab_size": 128256}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "config.json"
            file.write_text(json.dumps(llama))
            found = result("match", file)
            self.assertLessEqual(abs(found["mismatch"]["flops"]), 0.005)
            self.assertLessEqual(abs(found["mismatch"]["kv_cache"]), 0.02)
            self.assertEqual(len(result("match", file, "--ablate", "visits")["cells"]), 4)
            sizes = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size")
            file.write_text(json.dumps(llama | {size: 10 ** 9 for size in sizes}))
            result("match", file)

    def test_bounds_that_are_given_hold_in_an_ablation(self):
        found = result("match", BASELINE, "--ablate", "span", "--bounds", "hidden=0.9:1")
        for cell in found["cells"]:
            self.assertGreaterEqual(cell["matched"]["hidden_size"], 0.9 * found["baseline"]["hidden_size"])

    def test_a_fixed_size_far_away_is_answered(self):
        for flags in (["--fix", "hidden_size=1000000000"], ["--fix", "moe_intermediate_size=1000000000"]):
            self.assertFalse(result("match", BASELINE, *flags)["within_tolerance"])

    def test_latent_attention_keeps_its_multiple(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "config.json"
            file.write_text(json.dumps({"model_type": "deepseek_v3"}))
            self.assertEqual(result("match", file, "--multiple", "head_dim=12")["matched"]["kv_lora_rank"] % 12, 0)
            self.assertEqual(result("match", file)["matched"]["kv_lora_rank"] % 16, 0)

    def test_an_ablation_widens_the_bounds_that_are_given(self):
        found = result("match", BASELINE, "--ablate", "visits", "--bounds", "hidden=0.5:90")
        self.assertEqual([cell["visits"] for cell in found["cells"]], [1, 2, 3, 4])

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

    def test_bad_studies_name_the_line(self):
        study = (SOURCE / "configs/quick.toml").read_text()
        cases = [("rows = 4", "rows = -4", "rows: expected 1 to 1000000, got -4"),
                 ("rows = 4", "rows = 4000000000000000000", "rows: expected 1 to 1000000"),
                 ("row_length = ", "row_length = 10000000000000 #", "row_length: expected 2 to 1000000"),
                 ("decay_steps = ", "decay_steps = 4000000000000000000 #", "decay_steps: expected 1 to 1000000000"),
                 ("[loop]", "[loop]\nattended = 3", "attended: measured in the token store"),
                 ("[loop]", "[loop]\nbounds_hidden = [2, 1]", "bounds_hidden: expected two ratios"),
                 ("[loop]", "[loop]\nheads_multiple = 64", "cell s64-e"),
                 ("rows = 4", "rows = 4\nbogus_key = 5", "unknown key \"train.bogus_key\""),
                 ("rows = 4", 'rows = 4\nlr = "x"', "lr: expected a number"),
                 ("rows = 4", "rows = 4\nmicro_rows = 3", "micro_rows: expected a divisor of rows = 4, got 3"),
                 ("[loop]", "[train.foo]\na = 1\n[loop]", "unknown key \"train.foo\""),
                 ("[loop]", '[router]\nbalance = "bogus"\n[loop]', "balance: expected"),
                 ("decay_steps = 80", 'decay_steps = "x"', "decay_steps: expected an integer")]
        for old, new, words in cases:
            with self.subTest(new=new), tempfile.TemporaryDirectory() as folder:
                self.assertIn(old, study)
                file = Path(folder) / "study.toml"
                file.write_text(study.replace(old, new, 1))
                done = smelt("plan", file)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)
                self.assertIn(str(file), done.stderr)

    def test_a_looped_baseline_is_refused_at_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "study.toml"
            file.write_text('[data]\nstore = "none"\n[baseline]\nconfig = "paper/200M-S85-smelt"\n[horizons]\n'
                            'steps = [10]\ndecay_steps = 2\n')
            done = smelt("plan", file)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"config: expected a Baseline without a loop, got visits = 2 ({file}:4)", done.stderr)

    def test_micro_rows_and_devices(self):
        study = (SOURCE / "configs/quick.toml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "study.toml"
            file.write_text(study)
            whole = result("plan", file)
            cells = [cell["memory"][arm] for cell in whole["cells"] for arm in ("baseline", "smelt")]
            self.assertEqual(whole["memory_bytes"], max(cell["total"] for cell in cells))
            file.write_text(study.replace("rows = 4", "rows = 4\nmicro_rows = 1"))
            quarter = result("plan", file)["cells"][0]["memory"]["smelt"]
            self.assertAlmostEqual(quarter["activations"], whole["cells"][0]["memory"]["smelt"]["activations"] / 4)
            self.assertGreater(quarter["gradients"], whole["cells"][0]["memory"]["smelt"]["gradients"] - 1)
            file.write_text(study.replace("rows = 4", 'rows = 4\nrecompute = "layer"'))
            self.assertLess(result("plan", file)["memory_bytes"], whole["memory_bytes"])

    def test_keys_that_this_kind_of_model_does_not_have(self):
        head = '[data]\nstore = "none"\n[horizons]\nsteps = [10]\ndecay_steps = 2\n[baseline]\nconfig = "config.json"\n'
        for kind, scale, words in (("llama", "moe_intermediate_size = 5", "a model without experts has none, got 5"),
                                   ("deepseek_v3", "head_dim = 64", "head_dim: latent attention's is"),
                                   ("qwen3_moe", "experts = [16]\nnum_experts = 99", "give one of the two")):
            with self.subTest(kind=kind), tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "config.json").write_text(json.dumps({"model_type": kind}))
                file = Path(folder) / "study.toml"
                file.write_text(head + '[[scale]]\nname = "a"\n' + scale + "\n")
                done = smelt("plan", file)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)

    def test_losses_that_do_not_fall_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            endpoints = Path(folder) / "endpoints.csv"
            rows = [f"{arm},a,{seed},1e6,{tokens},4" for arm in ("baseline", "smelt") for seed in (1, 2)
                    for tokens in (1e6, 2e6)]
            endpoints.write_text("\n".join(["arch,cell,seed,flops_per_token,tokens,loss", *rows]) + "\n")
            done = smelt("plan", SOURCE / "configs/quick.toml", "--endpoints", endpoints, "--sigma", 0.1, "--gain", 0.1)
            self.assertEqual(done.returncode, 1)
            self.assertIn("loss does not fall with tokens", done.stderr)

    def test_a_budget_for_dense_and_latent_models(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("llama", "deepseek_v3"):
                (Path(folder) / "config.json").write_text(json.dumps({"model_type": kind}))
                file = Path(folder) / "study.toml"
                head = '[data]\nstore = "none"\n[baseline]\nconfig = "config.json"\n'
                tail = '[horizons]\nsteps = [10]\ndecay_steps = 2\n'
                file.write_text(head + tail)
                done = smelt("plan", file, "--budget", 1e24)
                self.assertEqual(done.returncode, 0, done.stderr)
                grid = done.stdout[done.stdout.index("[[scale]]"):done.stdout.index("! of this grid")]
                file.write_text(head + grid)
                found = result("plan", file)
                self.assertEqual(len(found["cells"]), 6 if kind == "llama" else 9)
                self.assertLess(abs(found["flops"]["total"] / 1e24 - 1), 0.02)
            done = smelt("plan", file, "--budget", 1e40)
            self.assertEqual(done.returncode, 1)
            self.assertIn("too many for this grid", done.stderr)

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
