"""One side of bench/train.py in a process of its own: transformers' Qwen3-MoE on the CPU, as a user would train it.

    train_peer.py make FOLDER --steps N --rows R --length T    config.json, model.safetensors, tokens.safetensors
    train_peer.py run FOLDER MODE --threads 2                  losses and times of every step as JSON on stdout

MODE is eager, grouped_mm or compiled (fp32), or bf16-eager, bf16-grouped_mm, bf16-compiled (autocast).  Attention is
PyTorch's own SDPA (a row is one document, so it is plainly causal), the optimizer its fused AdamW.
"""
import argparse
import contextlib
import json
import pathlib
import resource
import time

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

ROPE_THETA = 10000.0


def peer_config(config):
    sizes = {key: value for key, value in config.items() if key not in ("model_type", "rope_theta", "qk_norm", "schema")}
    return Qwen3MoeConfig(**sizes, rope_parameters={"rope_type": "default", "rope_theta": config["rope_theta"]})


def make(folder, steps, rows, length):
    """Random weights (std 0.02, norms 1) and tokens whose frequencies follow Zipf's law, as those of text do."""
    config = json.loads((folder / "config.json").read_text())
    torch.manual_seed(1)
    model = Qwen3MoeForCausalLM(peer_config(config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0, 0.02)
    save_file({name: p.detach().contiguous() for name, p in model.named_parameters()}, str(folder / "model.safetensors"))
    frequency = 1.0 / torch.arange(1, config["vocab_size"] + 1, dtype=torch.float64)
    tokens = torch.multinomial(frequency, steps * rows * length, replacement=True)
    save_file({"tokens": tokens.view(steps, rows, length)}, str(folder / "tokens.safetensors"))


def run(folder, mode, threads):
    torch.set_num_threads(threads)
    config = peer_config(json.loads((folder / "config.json").read_text()))
    config._attn_implementation = "sdpa"
    half = mode.startswith("bf16-")
    kind = mode.removeprefix("bf16-")
    config._experts_implementation = "eager" if kind == "eager" else "grouped_mm"
    model = Qwen3MoeForCausalLM(config)
    model.load_state_dict(load_file(str(folder / "model.safetensors")))
    model.train()
    norms = [p for p in model.parameters() if p.dim() < 2]
    others = [p for p in model.parameters() if p.dim() >= 2]
    optimizer = torch.optim.AdamW([{"params": others, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.95), eps=1e-8, fused=True)
    forward = torch.compile(model) if kind == "compiled" else model
    losses, seconds = [], []
    for batch in load_file(str(folder / "tokens.safetensors"))["tokens"]:
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16) if half else contextlib.nullcontext():
            loss = forward(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"losses": losses, "seconds": seconds, "peak_rss_bytes": peak}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "run"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("mode", nargs="?")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.what == "make":
        make(options.folder, options.steps, options.rows, options.length)
    else:
        run(options.folder, options.mode, options.threads)


if __name__ == "__main__":
    main()
