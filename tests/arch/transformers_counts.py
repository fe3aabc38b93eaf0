"""Writes tests/data/arch/transformers_counts.json: parameters as transformers itself builds them.

    pip install transformers torch          (5.24 wrote the file that is here)
    python tests/arch/transformers_counts.py tests/data/arch/transformers_counts.json

Each model is built on the meta device from a config.json; the file holds the config as transformers saves it and
the sums over its tensors: all, those of the routed experts, and embedding with head and final norm; and its top-k.  Routing biases
(buffers in transformers) are counted.  The published models' geometries are those of their config files.
"""
import json
import random
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, __version__

PUBLISHED = {
    "Qwen3-30B-A3B": dict(model_type="qwen3_moe", vocab_size=151936, hidden_size=2048, intermediate_size=6144,
                          num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4, head_dim=128,
                          moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8, norm_topk_prob=True,
                          decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False),
    "Mixtral-8x7B": dict(model_type="mixtral", vocab_size=32000, hidden_size=4096, intermediate_size=14336,
                         num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, num_local_experts=8,
                         num_experts_per_tok=2, tie_word_embeddings=False),
    "OLMoE-1B-7B": dict(model_type="olmoe", vocab_size=50304, hidden_size=2048, intermediate_size=1024,
                        num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=16, num_experts=64,
                        num_experts_per_tok=8, tie_word_embeddings=False),
    "Qwen2-57B-A14B": dict(model_type="qwen2_moe", vocab_size=151936, hidden_size=3584, intermediate_size=18944,
                           num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
                           moe_intermediate_size=2560, shared_expert_intermediate_size=20480, num_experts=64,
                           num_experts_per_tok=8, tie_word_embeddings=False),
    "DeepSeek-V3": dict(model_type="deepseek_v3", vocab_size=129280, hidden_size=7168, intermediate_size=18432,
                        moe_intermediate_size=2048, num_hidden_layers=61, num_attention_heads=128,
                        num_key_value_heads=128, n_shared_experts=1, n_routed_experts=256, kv_lora_rank=512,
                        q_lora_rank=1536, qk_rope_head_dim=64, v_head_dim=128, qk_nope_head_dim=128,
                        num_experts_per_tok=8, first_k_dense_replace=3, n_group=8, topk_group=4,
                        tie_word_embeddings=False),
}


def drawn(rng, model_type):
    """A small geometry of a model type in which no two sizes are equal by design."""
    head_dim = 2 * rng.randint(2, 9)
    kv_heads = rng.randint(1, 3)
    heads = kv_heads * rng.randint(1, 4)
    config = dict(model_type=model_type, vocab_size=rng.randint(50, 400), hidden_size=heads * 2 * rng.randint(3, 9),
                  num_hidden_layers=rng.randint(2, 6), num_attention_heads=heads, num_key_value_heads=kv_heads,
                  head_dim=head_dim, intermediate_size=rng.randint(9, 90), tie_word_embeddings=rng.random() < 0.5)
    experts = rng.randint(3, 12)
    if model_type in ("qwen3_moe", "qwen2_moe"):
        config |= dict(moe_intermediate_size=rng.randint(5, 40), num_experts=experts,
                       num_experts_per_tok=rng.randint(1, 3), decoder_sparse_step=rng.choice([1, 1, 2]),
                       mlp_only_layers=rng.choice([[], [0], [1]]))
    if model_type == "qwen2_moe":
        config |= dict(shared_expert_intermediate_size=rng.randint(7, 50), qkv_bias=rng.random() < 0.5)
    if model_type == "mixtral":
        config |= dict(num_local_experts=experts, num_experts_per_tok=rng.randint(1, 3))
    if model_type == "olmoe":
        config |= dict(num_experts=experts, num_experts_per_tok=rng.randint(1, 3))
    if model_type in ("llama", "qwen3", "qwen3_moe", "olmoe"):
        config["attention_bias"] = rng.random() < 0.5
    if model_type == "llama":
        config["mlp_bias"] = rng.random() < 0.5
    if model_type in ("qwen2", "qwen2_moe", "olmoe"):  # head size is hidden / heads there
        del config["head_dim"]
        config["hidden_size"] = heads * head_dim
    if model_type.startswith("deepseek"):
        config |= dict(num_key_value_heads=heads, n_routed_experts=experts, num_experts_per_tok=rng.randint(1, 3),
                       n_shared_experts=rng.randint(1, 3), moe_intermediate_size=rng.randint(5, 40),
                       first_k_dense_replace=rng.randint(0, 2), kv_lora_rank=rng.randint(5, 20),
                       q_lora_rank=rng.choice([None, 11, 14]), qk_rope_head_dim=2 * rng.randint(1, 5),
                       qk_nope_head_dim=rng.randint(3, 12), v_head_dim=rng.randint(3, 14), n_group=1, topk_group=1,
                       attention_bias=rng.random() < 0.5)
        del config["head_dim"]
    return config


def counted(config):
    config = dict(config)
    hf = AutoConfig.for_model(config.pop("model_type"), **config)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(hf)
    sums = dict(total=0, routed=0, embedding=0, top_k=getattr(hf, "num_experts_per_tok", None) or 0)
    tensors = dict(model.named_parameters())  # a tied head comes once
    tensors |= {name: b for name, b in model.named_buffers() if "e_score_correction_bias" in name}
    for name, tensor in tensors.items():
        sums["total"] += tensor.numel()
        if ".experts." in name:
            sums["routed"] += tensor.numel()
        if name in ("model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"):
            sums["embedding"] += tensor.numel()
    return sums


def main(path):
    rng = random.Random(2026)
    rows = [dict(name=name, config=config, **counted(config)) for name, config in PUBLISHED.items()]
    for model_type in ("qwen3_moe", "qwen2_moe", "mixtral", "olmoe", "deepseek_v2", "deepseek_v3", "llama", "qwen3",
                       "qwen2"):
        rows.append(dict(name=f"{model_type} defaults", config=dict(model_type=model_type),
                         **counted(dict(model_type=model_type)
                                   | (dict(num_experts_per_tok=2) if model_type == "deepseek_v2" else {}))))
        if model_type == "deepseek_v2":
            rows[-1]["config"]["num_experts_per_tok"] = 2
        for i in range(4):
            config = drawn(rng, model_type)
            rows.append(dict(name=f"{model_type} {i}", config=config, **counted(config)))
    with open(path, "w") as file:
        file.write('{"transformers": "%s", "models": [\n' % __version__)
        file.write(",\n".join(json.dumps(row) for row in rows) + "\n]}\n")


if __name__ == "__main__":
    main(sys.argv[1])
