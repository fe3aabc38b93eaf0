"""Runs the commands that README and docs/ show, in the order of each document, in a folder with the files they name.

What takes long there is made short here: steps, vocabulary, the corpus.  `make` targets and the quick study are left to
`.ci/run`, which runs them on the miniature.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SMELT_SOURCE_DIR"])
BIN = Path(os.environ["SMELT_BUILD_DIR"]) / "bin"
WITH_TORCH = (BIN / "smelt-torch").exists()
TORCH_VERBS = {"check", "train", "branch", "sweep", "study", "eval", "probe", "generate"}

# Command (as the document writes it) → why it is not run here.
ELSEWHERE = {"smelt study configs/quick.toml --out runs/quick": "fifteen minutes; the miniature is .ci/run's"}
SHORTER = {"--vocab-size 8192": "--vocab-size 400", "--vocab-size 4096": "--vocab-size 400",
           "--time-steps 20": "--time-steps 2", "probe MODEL": "probe runs/a", "check tests/data/cases/* ":
           "check tests/data/cases/baseline tests/data/cases/loop_half "}
# Documents whose commands make what others use come first.
FIRST = ["data", "your-own", "train", "branch", "sweep", "eval", "probe", "generate", "report"]
# A run that the documents of train, branch, eval, … work on.
RUN = """schema = "smelt.run/1"
name = "a"
[model]
{model}
[data]
store = "../../data/quick"
row_length = 32
[train]
steps = 500
rows = 2
checkpoint_every = 250
keep_steps = [500]
warmup_steps = 5
"""
SMALL_MODEL = dict(model_type="qwen3_moe", vocab_size=400, hidden_size=32, num_hidden_layers=4, num_attention_heads=2,
                   num_key_value_heads=1, head_dim=24, moe_intermediate_size=16, num_experts=8, num_experts_per_tok=2,
                   norm_topk_prob=True)


def commands(document):
    text = document.read_text()
    found = re.findall(r"^    (smelt .*)$", text, re.MULTILINE)
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language not in ("", "sh", "bash", "console"):
            continue
        lines = [re.sub(r"^\$ (build/release/bin/)?", "", line) for line in body.splitlines()]
        found += [line for line in lines if line.startswith("smelt ")]
    return [re.sub(r"\s+#.*", "", command).strip() for command in found]


def documents():
    pages = sorted((SOURCE / "docs").glob("*.md"), key=lambda page: page.stem)
    pages.sort(key=lambda page: FIRST.index(page.stem) if page.stem in FIRST else len(FIRST))
    return [*pages, SOURCE / "README.md"]


def my_study():
    """The study of docs/your-own.md with few steps."""
    text = re.search(r"```toml\n(.*?)```", (SOURCE / "docs/your-own.md").read_text(), re.DOTALL).group(1)
    for shown, short in [("steps = [1000, 2000, 4000]", "steps = [4, 8, 12]"), ("decay_steps = 200", "decay_steps = 2"),
                         ("seeds = [1, 2, 3]", "seeds = [1, 2]"), ("row_length = 512", "row_length = 64"),
                         ("rows = 16", "rows = 2\nwarmup_steps = 2")]:
        assert shown in text, shown
        text = text.replace(shown, short)
    return text


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="smelt-commands-"))
        for name in ("examples", "configs", "tests"):
            (cls.folder / name).symlink_to(SOURCE / name)
        endpoints = SOURCE / "tests/data/law/example_endpoints.csv"
        shutil.copy(endpoints, cls.folder / "endpoints.csv")
        (cls.folder / "runs/quick").mkdir(parents=True)
        shutil.copy(endpoints, cls.folder / "runs/quick/endpoints.csv")
        (cls.folder / "config.json").write_text(json.dumps(SMALL_MODEL))
        (cls.folder / "my-study.toml").write_text(my_study())
        for document in sorted((SOURCE / "docs").glob("*.md")):
            for part, text in enumerate(document.read_text().split("\n## ")):
                file = cls.folder / "my-text/docs" / f"{document.stem}-{part}.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        (cls.folder / "data").mkdir()
        shutil.copytree(cls.folder / "my-text", cls.folder / "data/corpus")
        (cls.folder / "runs/a").mkdir()
        model = "\n".join(f"{key} = {json.dumps(value)}" for key, value in SMALL_MODEL.items())
        (cls.folder / "runs/a/run.toml").write_text(RUN.format(model=model))
        (cls.folder / "prompt.txt").write_text("the study")
        (cls.folder / "tokens.json").write_text(json.dumps(
            {"tokens": [list(range(3, 19))], "segment_ids": [[0] * 9 + [1] * 7]}))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_documents_show_what_works(self):
        ran = 0
        environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
        for document in documents():
            if document.stem == "report" and WITH_TORCH:  # the study of your-own.md, by the name that report.md uses
                shutil.rmtree(self.folder / "runs/quick")
                shutil.copytree(self.folder / "my-study", self.folder / "runs/quick")
            for command in commands(document):
                verb = command.split()[1]
                if command in ELSEWHERE or (verb in TORCH_VERBS | {"report"} and not WITH_TORCH):
                    continue
                for shown, short in SHORTER.items():
                    command = (command + " ").replace(shown, short).strip()
                with self.subTest(document=document.name, command=command):
                    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder, env=environment,
                                          capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
                    self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                    self.assertTrue(done.stdout)
                    ran += 1
        self.assertGreaterEqual(ran, 35 if WITH_TORCH else 15)


if __name__ == "__main__":
    unittest.main()
