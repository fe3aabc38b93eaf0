#!/usr/bin/env python3
"""Kills `smelt train` with SIGKILL (and now and then SIGTERM) at random moments until the run is through, then
compares it with an undisturbed one: weights, moments, metrics without times.

    python3 tests/train/soak_kill.py build/release/bin/smelt runs/a/run.toml --kills 10

RUN.toml names any run; it is trained twice, into folders below --work.  Exit 0 when all bits agree.
"""
import argparse
import hashlib
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def digest(run):
    newest = sorted((run / "checkpoints").glob("step-????????"))[-1]
    return {name: hashlib.sha256((newest / name).read_bytes()).hexdigest()
            for name in ("model.safetensors", "optimizer.safetensors")}


def metrics(run):
    lines = []
    for text in (run / "metrics.jsonl").read_text().splitlines():
        line = json.loads(text)
        for key in ("seconds", "tokens_per_second", "flops_per_second", "mfu", "peak_rss_bytes"):
            line.pop(key, None)
        lines.append(line)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("smelt")
    parser.add_argument("run_toml")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; default: another each time")
    parser.add_argument("--work", type=pathlib.Path, default=None)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    work = args.work or pathlib.Path(tempfile.mkdtemp(prefix="smelt-soak-"))
    command = [args.smelt, "train", args.run_toml, "--out"]
    begin = time.monotonic()
    subprocess.run(command + [str(work / "straight")], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    whole = time.monotonic() - begin
    kills = {signal.SIGKILL: 0, signal.SIGTERM: 0}
    while True:
        child = subprocess.Popen(command + [str(work / "killed")], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        # Moments spread over the run, so that about `kills` of them fit in.
        limit = rng.uniform(0.3, 2 * whole / args.kills + 0.6) if sum(kills.values()) < args.kills else None
        try:
            code = child.wait(limit)
            if code == 0:
                break
            sys.exit(f"smelt train failed with {code} after {kills}")
        except subprocess.TimeoutExpired:
            how = signal.SIGTERM if rng.random() < 0.2 else signal.SIGKILL
            child.send_signal(how)
            code = child.wait()
            # 0: it was through before the signal came.
            if how == signal.SIGTERM and code not in (0, 143, -15):
                sys.exit(f"SIGTERM: expected exit 143, got {code}")
            kills[how] += 1
    same = digest(work / "straight") == digest(work / "killed")
    same_metrics = metrics(work / "straight") == metrics(work / "killed")
    print(f"{kills[signal.SIGKILL]} kills, {kills[signal.SIGTERM]} terminations: "
          f"bits {'equal' if same else 'DIFFER'}, metrics {'equal' if same_metrics else 'DIFFER'}")
    if same and same_metrics and args.work is None:
        shutil.rmtree(work)
    sys.exit(0 if same and same_metrics else 1)


if __name__ == "__main__":
    main()
