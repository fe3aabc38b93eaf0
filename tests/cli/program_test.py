"""The programs as users call them: help of every verb, exit codes, and one clear line for what goes wrong."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SMELT_SOURCE_DIR"])
BIN = Path(os.environ["SMELT_BUILD_DIR"]) / "bin"
SMELT = BIN / "smelt"
WITH_TORCH = (BIN / "smelt-torch").exists()


def smelt(*arguments, program=SMELT, **options):
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([str(program), *map(str, arguments)], stderr=subprocess.PIPE, text=True, timeout=120, **options)


def verb_sets():
    text = (SOURCE / "cli/CMakeLists.txt").read_text()
    plain = re.search(r"set\(verbs ([^)]*)\)", text).group(1).split()
    torch = re.search(r"set\(torch_verbs ([^)]*)\)", text).group(1).split()
    return plain, torch


PLAIN, TORCH = verb_sets()
VERBS = PLAIN + (TORCH if WITH_TORCH else [])

# How each verb is called on a file or folder that is not there.
MISSING_INPUT = {
    "budget": ["budget", "none"],
    "match": ["match", "none"],
    "plan": ["plan", "none"],
    "data": ["data", "show", "none"],
    "fit": ["fit", "none"],
    "gain": ["gain", "none"],
    "predict": ["predict", "none", "--flops", "1e9", "--tokens", "1e9"],
    "report": ["report", "none"],
    "check": ["check", "none"],
    "train": ["train", "none", "--out", "out"],
    "branch": ["branch", "none", "--out", "out", "--at", "1", "--decay-steps", "5"],
    "sweep": ["sweep", "none", "--lr", "0.1,0.2,0.3", "--out", "out"],
    "study": ["study", "none", "--out", "out"],
    "eval": ["eval", "none", "--store", "none"],
    "probe": ["probe", "none", "--store", "none"],
    "generate": ["generate", "none", "--prompt", "x"],
}


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def assert_fails(self, result, code, *parts):
        """Exit `code`, nothing on stdout, lines that start with the part that speaks, and hold `parts`."""
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout or "", "")
        lines = result.stderr.rstrip("\n").split("\n")
        for line in lines:
            self.assertRegex(line, r"^\[[a-z]+\] \S", result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        return lines

    def test_version(self):
        result = smelt("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^\d+\.\d+\.\d+( \(\S+\))?\n$")

    def test_help_lists_every_verb_with_a_summary(self):
        text = smelt("--help").stdout
        for verb in VERBS:
            self.assertRegex(text, rf"(?m)^\s+{verb}\s+\S+ \S+", f"{verb} has no summary")

    def test_every_verb_has_help_with_an_example_and_json(self):
        for verb in VERBS:
            with self.subTest(verb):
                result = smelt(verb, "--help")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertRegex(result.stdout, rf"Example:\n\s+smelt {verb}\b")
                actions = re.findall(r"(?m)^  (\w+) +\S", result.stdout.split("Subcommands:")[1].split("Example:")[0]) if "Subcommands:" in result.stdout else []
                pages = [result.stdout] if not actions else [smelt(verb, action, "--help").stdout for action in actions]
                for page in pages:
                    self.assertIn("--json", page)

    def test_every_flag_says_what_it_does(self):
        for verb in VERBS:
            with self.subTest(verb):
                lines = smelt(verb, "--help").stdout.splitlines()
                for line, following in zip(lines, lines[1:] + [""]):
                    if not re.match(r"^  (-|[A-Z])", line):
                        continue
                    words = re.sub(r"^  \S+( (TEXT|INT|UINT|FLOAT|BOOLEAN|ENUM|REQUIRED|\.\.\.|\S*\[.*?\]|\S*:.*?))*", "", line)
                    self.assertTrue(words.strip() or following.startswith("        "), f"no help: {line}")

    def test_no_verb_and_unknown_verbs_are_wrong_usage(self):
        self.assertEqual(len(self.assert_fails(smelt(), 2, "smelt --help")), 1)
        self.assertEqual(self.assert_fails(smelt("bugdet"), 2),
                         ['[cli] unknown verb "bugdet"; did you mean "budget"? (see smelt --help)'])
        self.assertEqual(self.assert_fails(smelt("xyzzy"), 2), ['[cli] unknown verb "xyzzy" (see smelt --help)'])

    def test_unknown_flags_are_wrong_usage(self):
        for verb in VERBS:
            with self.subTest(verb):
                self.assertEqual(len(self.assert_fails(smelt(verb, "--no-such-flag"), 2, f"smelt {verb}")), 1)

    def test_words_for_numbers_are_wrong_usage(self):
        done = smelt("predict", "law.json", "--compute", "much")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "[cli] --compute: expected a number, got much; see smelt predict --help\n")

    def test_flags_without_draws_are_wrong_usage(self):
        done = smelt("gain", "runs.csv", "--draws", "0", "--interval", "bca")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "[cli] --interval: needs draws, got --draws 0; see smelt gain --help\n")

    def test_missing_input_is_one_line_that_names_it(self):
        for verb in VERBS:
            with self.subTest(verb):
                result = smelt(*MISSING_INPUT[verb], cwd=self.folder)
                if verb == "check":  # its table of cases is a result even when all fail
                    self.assertIn("0 of 1 cases passed", result.stdout)
                    result.stdout = ""
                lines = self.assert_fails(result, 1, "none")
                self.assertEqual(len(lines), 1)
                self.assertEqual(list(self.folder.iterdir()), [], "nothing is made for an input that is not there")

    def test_broken_json_names_the_line(self):
        (self.folder / "c.json").write_text('{\n "hidden_size": ,\n}')
        self.assert_fails(smelt("budget", "c.json", cwd=self.folder), 1, "(c.json:2)")

    def test_full_disk_behind_stdout_is_a_failure(self):
        if not os.access("/dev/full", os.W_OK):
            self.skipTest("no /dev/full here")
        (self.folder / "c.json").write_text(
            '{"model_type":"qwen3_moe","vocab_size":64,"hidden_size":16,"num_hidden_layers":2,"num_attention_heads":2,'
            '"num_key_value_heads":1,"head_dim":8,"moe_intermediate_size":8,"num_experts":4,"num_experts_per_tok":2}')
        self.assertEqual(smelt("budget", "c.json", cwd=self.folder).returncode, 0)
        with open("/dev/full", "w") as full:
            self.assert_fails(smelt("budget", "c.json", cwd=self.folder, stdout=full), 1, "No space left on device")

    def test_plain_program_does_not_load_libtorch(self):
        libraries = subprocess.run(["ldd", str(SMELT)], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(libraries, r"libtorch|libc10|libgomp|not found")
        if WITH_TORCH:
            libraries = subprocess.run(["ldd", str(BIN / "smelt-torch")], capture_output=True, text=True, check=True).stdout
            self.assertRegex(libraries, r"libtorch_cpu")
            self.assertNotIn("not found", libraries)

    def test_torch_verbs_without_their_program_say_so(self):
        shutil.copy(SMELT, self.folder / "smelt")
        result = smelt("train", "x", program=self.folder / "smelt", cwd=self.folder)
        self.assert_fails(result, 1, "smelt-torch", "No such file or directory")

    def test_programs_find_each_other_through_a_symlink(self):
        if not WITH_TORCH:
            self.skipTest("built without LibTorch")
        link = self.folder / "smelt"
        link.symlink_to(SMELT)
        self.assertEqual(smelt("check", "--help", program=link).returncode, 0)


if __name__ == "__main__":
    unittest.main()
