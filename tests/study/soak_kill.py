#!/usr/bin/env python3
"""Kills `smelt study` with SIGKILL at random moments until it is through, then compares it with an undisturbed one:
losses, fingerprints and the bits of every checkpoint that is left.

    python3 tests/study/soak_kill.py build/release/bin/smelt configs/mini.toml --kills 10 --work build/soak

Leaves the undisturbed study in WORK/straight and the other in WORK/killed.  Exit 0 when all bits agree.
"""
import argparse
import csv
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time


def endpoints(folder):
    rows = list(csv.DictReader((folder / "endpoints.csv").open()))
    for row in rows:
        row.pop("step_seconds")
    return rows


def pairs(folder):
    return json.loads((folder / "study.json").read_text())["pairs"]


def checkpoints(folder):
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.glob("runs/*/checkpoints/step-????????/*.safetensors"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("smelt")
    parser.add_argument("study_toml")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None, help="of the moments; default: another each time")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    straight, killed = args.work / "straight", args.work / "killed"
    for folder in (straight, killed):
        shutil.rmtree(folder, ignore_errors=True)
    command = [args.smelt, "study", args.study_toml, "--out"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    begin = time.monotonic()
    subprocess.run(command + [str(straight)], check=True, **quiet)
    whole = time.monotonic() - begin
    kills = 0
    while True:
        child = subprocess.Popen(command + [str(killed)], **quiet)
        limit = rng.uniform(0.2, 1.8) * whole / args.kills if kills < args.kills else None
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            kills += 1
            continue
        if code != 0:
            sys.exit(f"the study ended with exit status {code} after {kills} kills")
        break
    for name, read in (("endpoints", endpoints), ("pairs", pairs), ("checkpoints", checkpoints)):
        if read(straight) != read(killed):
            sys.exit(f"{name} differ after {kills} kills: see {args.work}")
    print(f"equal after {kills} kills: {len(checkpoints(straight))} weight and moment files, "
          f"{len(endpoints(straight))} endpoints")


if __name__ == "__main__":
    main()
