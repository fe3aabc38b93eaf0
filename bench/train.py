#!/usr/bin/env python3
"""Training steps of smelt beside transformers' Qwen3-MoE, in one run (`make bench-train`).

    python bench/train.py build/release build/bench/train.json --python-path build/bench/python

Hidden size 256, 8 layers, 32 experts of width 128, 8 a token, 4 heads of 64 on 2 KV heads, vocabulary 8192; 4 rows of
512 tokens, each one document.  Both sides start from the same weights and read the same tokens, every side in a process
of its own, in turns; a figure is the median over the repeats of each process's median step.  Their losses must agree
step by step, so that they do the same work.  Then smelt alone: the looped model that `smelt match` gives for this one,
and how a step's cost grows with tokens, layers and experts.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFIG = {
    "model_type": "qwen3_moe", "hidden_size": 256, "num_hidden_layers": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "moe_intermediate_size": 128, "num_experts": 32,
    "num_experts_per_tok": 8, "norm_topk_prob": True, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "vocab_size": 8192, "max_position_embeddings": 4096, "tie_word_embeddings": False,
}
ROWS, LENGTH = 4, 512
ATTENDED = 256.5  # mean positions a token attends to in one document of 512
PEERS = ["eager", "grouped_mm", "compiled", "bf16-grouped_mm", "bf16-compiled"]
WARMUP = 2        # steps of a process that do not count
FP32_LOSSES, BF16_LOSSES = 2e-4, 2e-2  # largest difference of a step's loss, in nats


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.program = options.build / "bin" / "train_steps"
        self.peer_environment = dict(os.environ, PYTHONPATH=str(options.python_path or ""))

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def ask(self, command, **how):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **how)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(str(part) for part in command)} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.strip().splitlines()[-1] if "peer" in str(command) else done.stdout)

    def smelt(self, path, precision="fp32", rows=ROWS, length=LENGTH, what="step"):
        return self.ask([self.program, what, path, "--threads", self.options.threads, "--precision", precision,
                         "--steps", self.options.steps, "--rows", rows, "--length", length])

    def peer(self, mode):
        return self.ask([sys.executable, HERE / "train_peer.py", "run", self.folder, mode, "--threads",
                         self.options.threads], env=self.peer_environment)

    def config(self, name, **changes):
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({**CONFIG, **changes}))
        return file


def step_seconds(result):
    return statistics.median(result["seconds"][WARMUP:])


def median_step(results):
    return statistics.median(step_seconds(result) for result in results)


def flops_per_token(bench, file):
    budget = json.loads(subprocess.run([bench.options.build / "bin" / "smelt", "budget", file, "--attended", str(ATTENDED),
                                        "--json"], check=True, capture_output=True, text=True).stdout)
    flops = budget["flops_per_token"]
    return flops["training"] + flops["head"]


def compare(bench):
    """Every side in turns, `repeats` times."""
    sides = {"smelt fp32": lambda: bench.smelt(bench.folder)}
    if bench.smelt(bench.folder / "config.json", "bf16", what="products") is not None:
        sides["smelt bf16"] = lambda: bench.smelt(bench.folder, "bf16")
    for mode in PEERS:
        sides[mode] = lambda mode=mode: bench.peer(mode)
    results = {name: [] for name in sides}
    for repeat in range(bench.options.repeats):
        for name, run in sides.items():
            results[name].append(run())
            bench.say(f"  {repeat + 1}/{bench.options.repeats} {name}: {step_seconds(results[name][-1]):.3f} s a step")
    reference = results["eager"][0]["losses"]
    for name, runs in results.items():
        limit = BF16_LOSSES if "bf16" in name else FP32_LOSSES
        worst = max(abs(a - b) for a, b in zip(runs[0]["losses"], reference))
        bench.say(f"  {name}: losses within {worst:.1e} of eager's")
        if worst > limit:
            sys.exit(f"bench: {name} does other work: a loss differs by {worst:.3g}, the limit is {limit}")
    return results


def entry(runs, flops):
    speed = ROWS * LENGTH / median_step(runs)
    return {"tokens_per_second": speed, "flops_per_second": speed * flops,
            "peak_rss_bytes": statistics.median(run["peak_rss_bytes"] for run in runs)}


def looped_over_baseline(bench):
    baseline, looped = bench.config("baseline"), bench.folder / "looped.json"
    subprocess.run([bench.options.build / "bin" / "smelt", "match", baseline, "--attended", str(ATTENDED), "--out", looped],
                   check=True, stdout=subprocess.DEVNULL)
    ratios = []
    for _ in range(max(3, bench.options.repeats)):
        ratios.append(step_seconds(bench.smelt(looped)) / step_seconds(bench.smelt(baseline)))
    return statistics.median(ratios)


def scaling(bench):
    """Seconds of a step over those of the model above."""
    once = step_seconds(bench.smelt(bench.config("once")))
    rows = {str(rows * LENGTH): step_seconds(bench.smelt(bench.config("once"), rows=rows)) / once for rows in (2, 8, 16)}
    layers = {str(n): step_seconds(bench.smelt(bench.config("layers", num_hidden_layers=n))) / once for n in (4, 16)}
    experts = {str(n): step_seconds(bench.smelt(bench.config("experts", num_experts=n))) / once for n in (16, 64, 128)}
    return {"tokens": rows, "layers": layers, "experts": experts}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="build folder with bin/train_steps and bin/smelt")
    parser.add_argument("out", type=Path, help="JSON file to write")
    parser.add_argument("--python-path", type=Path, help="folder that transformers was installed into")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.steps <= WARMUP:
        parser.error(f"--steps must be more than the {WARMUP} that warm up")
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(options, Path(name))
        file = bench.config("config")
        flops = flops_per_token(bench, file)
        subprocess.run([sys.executable, HERE / "train_peer.py", "make", name, "--steps", str(options.steps), "--rows",
                        str(ROWS), "--length", str(LENGTH)], check=True, env=bench.peer_environment,
                       stderr=subprocess.DEVNULL)
        results = compare(bench)
        products = bench.smelt(file, what="products")
        bench.say("  looped against matched Baseline, and how cost grows")
        report = {
            "schema": "smelt.bench-train/1",
            "gemm_peak_flops": products["gemm_peak_flops"],
            "products_tokens_per_second": products["tokens_per_second"],
            "flops_per_token": flops,
            "smelt": {kind: entry(results[f"smelt {kind}"], flops) for kind in ("fp32", "bf16")
                      if f"smelt {kind}" in results},
            "transformers": {mode: entry(results[mode], flops) for mode in PEERS if not mode.startswith("bf16")},
            "looped_over_baseline": looped_over_baseline(bench),
            "cost_ratios": scaling(bench),
            "threads": options.threads, "repeats": options.repeats, "steps": options.steps,
        }
        if "bf16" in report["smelt"]:
            half = bench.smelt(file, "bf16", what="products")
            report["bf16_gemm_peak_flops"] = half["gemm_peak_flops"]
            report["bf16_products_tokens_per_second"] = half["tokens_per_second"]
            fastest = min((mode for mode in PEERS if mode.startswith("bf16")), key=lambda mode: median_step(results[mode]))
            report["transformers"]["bf16"] = {**entry(results[fastest], flops), "mode": fastest}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    show(report)


def show(report):
    peak = report["gemm_peak_flops"]
    print(f"{'':24}{'tokens/s':>10}{'GFLOP/s':>10}{'of peak':>9}{'peak RSS':>10}")
    for side in ("smelt", "transformers"):
        for name, e in report[side].items():
            print(f"{side + ' ' + name:24}{e['tokens_per_second']:10,.0f}{e['flops_per_second'] / 1e9:10.0f}"
                  f"{e['flops_per_second'] / peak:9.0%}{e['peak_rss_bytes'] / 2**30:8.2f} G")
    fastest = max(e["tokens_per_second"] for e in report["transformers"].values())
    least = min(e["peak_rss_bytes"] for e in report["transformers"].values())
    for name, e in report["smelt"].items():
        print(f"smelt {name}: {e['tokens_per_second'] / fastest:.2f} times transformers' fastest mode, "
              f"{e['peak_rss_bytes'] / least:.0%} of its smallest memory")
    print(f"fp32 peak of matrix products {peak / 1e9:.0f} GFLOP/s; the step's products alone would allow "
          f"{report['products_tokens_per_second']:,.0f} tokens/s, smelt does "
          f"{report['smelt']['fp32']['tokens_per_second'] / report['products_tokens_per_second']:.0%} of that")
    print(f"looped step over its matched Baseline's: {report['looped_over_baseline']:.3f}")
    for what, ratios in report["cost_ratios"].items():
        print(f"step against the one above, {what}: " + ", ".join(f"{n}: {r:.2f}" for n, r in ratios.items()))


if __name__ == "__main__":
    main()
