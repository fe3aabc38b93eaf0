#!/usr/bin/env python3
"""Makes the case `tests/data/cases/transformers` out of Hugging Face's own Qwen3MoeForCausalLM: a small unlooped model,
every document run by itself in fp64, router losses from its router logits.  The format is that of tests/data/cases.md.

    pip install torch "transformers>=5" safetensors
    python3 tests/model/transformers_reference.py tests/data/cases/transformers

Made with transformers 5.24.0 and torch 2.13.0.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

SIZES = dict(vocab_size=48, hidden_size=20, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=3, head_dim=6,
             moe_intermediate_size=9, num_experts=7, num_experts_per_tok=3, norm_topk_prob=True, rms_norm_eps=1e-6,
             max_position_embeddings=64, tie_word_embeddings=False)
ROPE_THETA = 50000.0
DOCUMENTS = [[9, 1, 10], [20]]  # lengths per row
SMALLEST_GAP = 1e-3             # between chosen and rejected router logits


def make(seed):
    torch.manual_seed(seed)
    config = Qwen3MoeConfig(**SIZES, rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"  # the grouped kernels want widths in multiples of 4
    model = Qwen3MoeForCausalLM(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = 0.4 if p.dim() > 1 else 0.2
            p.copy_(torch.randn_like(p) * scale + (1.0 if "norm" in name else 0.0))
    weights = {name: p.detach().float().clone().contiguous() for name, p in model.named_parameters()}
    return model.double(), weights


def main():
    folder = pathlib.Path(sys.argv[1])
    top_k, experts = SIZES["num_experts_per_tok"], SIZES["num_experts"]
    for seed in range(100):
        model, weights = make(seed)
        tokens, segments, logits, routers, nlls = [], [], [], [], []
        generator = torch.Generator().manual_seed(seed)
        for lengths in DOCUMENTS:
            row, ids, row_nll = [], [], []
            for number, length in enumerate(lengths):
                document = torch.randint(SIZES["vocab_size"], (length,), generator=generator)
                out = model(document[None], output_router_logits=True)
                nll = torch.nn.functional.cross_entropy(out.logits[0, :-1], document[1:], reduction="none")
                row += document.tolist()
                ids += [number] * length
                row_nll += [*nll, None]
                logits.append(out.logits[0])
                routers.append(torch.stack([r.reshape(length, experts) for r in out.router_logits]))
            tokens.append(row)
            segments.append(ids)
            nlls.append(row_nll)
        router = torch.cat(routers, 1)  # [layer, position, expert]
        ordered = router.sort(-1, descending=True).values
        gap = (ordered[..., top_k - 1] - ordered[..., top_k]).min().item()
        if gap >= SMALLEST_GAP:
            break
    else:
        sys.exit("no seed gives clear routing decisions")

    scored = [x for row in nlls for x in row if x is not None]
    loss = torch.stack(scored).sum() / len(scored)
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    chosen = router.topk(top_k, -1).indices
    probabilities = router.softmax(-1)
    share = torch.nn.functional.one_hot(chosen, experts).double().sum(2).mean(1) / top_k  # [layer, expert]
    rows, width = len(tokens), len(tokens[0])
    expected = {
        "schema": "smelt-case-1", "loss": loss.item(), "targets": len(scored),
        "grad_norm": torch.sqrt(sum((g ** 2).sum() for g in gradients.values())).item(),
        "per_token_nll": [[None if x is None else x.item() for x in row] for row in nlls],
        "executed": [{"layer": n + 1, "visit": 1, "residual_scale": 1.0} for n in range(SIZES["num_hidden_layers"])],
        "lb_loss": (experts * (share * probabilities.mean(1)).sum(-1)).tolist(),
        "z_loss": (router.logsumexp(-1) ** 2).mean(-1).tolist(),
        "experts": chosen.reshape(-1, rows, width, top_k).tolist(), "router_min_gap": gap,
    }
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "qwen3_moe", **SIZES, "rope_theta": ROPE_THETA, "qk_norm": True}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "tokens.json").write_text(json.dumps({"schema": "smelt-case-1", "tokens": tokens, "segment_ids": segments}))
    (folder / "expected.json").write_text(json.dumps(expected))
    save_file(weights, folder / "model.safetensors")
    save_file({"logits": torch.cat(logits).reshape(rows, width, -1).detach().float().contiguous(),
               **{f"grad.{name}": g.float().contiguous() for name, g in gradients.items()}},
              folder / "expected.safetensors")
    print(f"seed {seed}, smallest router gap {gap:.2g}, loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
