"""Checks that README, CONTRIBUTING and docs/ speak of what is there: make targets, verbs, files and links."""

import os
import re
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("SMELT_SOURCE_DIR", Path(__file__).resolve().parents[2]))
CODE_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FOLDERS = "smelt|cli|tests|bench|docs|scripts|configs|examples|cmake"


TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")


def documents():
    return sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


def make_targets(text):
    return set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))


def verbs():
    text = (ROOT / "cli/CMakeLists.txt").read_text()
    return {verb for names in re.findall(r"set\((?:torch_)?verbs ([^)]*)\)", text) for verb in names.split()}


def commands(text):
    """The command lines of shell blocks and of `inline code`, without prompts and comments."""
    lines = []
    for language, body in CODE_BLOCK.findall(text):
        if language in ("", "sh", "bash", "console", "shell"):
            lines += [re.sub(r"^\s*\$ ", "", line) for line in body.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", CODE_BLOCK.sub("", text))
    return [re.sub(r"\s+#.*", "", line).strip() for line in lines]


def unknown_make_targets(text, targets):
    unknown = []
    for line in commands(text):
        for words in re.findall(r"(?:^|&& |; )make ([^&;|]*)", line):
            for word in words.split():
                if "=" not in word and not word.startswith(("-", "…")) and word not in targets:
                    unknown.append(f"make {word}")
    return unknown


def unknown_verbs(text, known):
    unknown = []
    for line in commands(text):
        for word in re.findall(r"(?:^|/bin/|&& |\| )smelt ([a-z]\w*)", line):
            if word not in known:
                unknown.append(f"smelt {word}")
    return unknown


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.targets = make_targets((ROOT / "Makefile").read_text())
        cls.verbs = verbs()

    def each(self, check):
        wrong = []
        for path in documents():
            wrong += [f"{path.relative_to(ROOT)}: {problem}" for problem in check(path)]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_documents_are_there(self):
        pages = [f"docs/{name}.md" for name in ("architecture", "dependencies", "install", "paper-map")]
        pages += [f"docs/{verb}.md" for verb in sorted(self.verbs)]
        self.assertEqual([name for name in [*TOP, *pages] if not (ROOT / name).exists()], [])

    def test_make_targets_exist(self):
        self.each(lambda path: unknown_make_targets(path.read_text(), self.targets))

    def test_verbs_exist(self):
        # The design names verbs that are still to come; only the change log may speak of them.
        self.each(lambda path: unknown_verbs(path.read_text(), self.verbs))

    def test_links_lead_somewhere(self):
        def check(path):
            for link in LINK.findall(path.read_text()):
                target = link.split("#")[0]
                if target and not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                    yield f"link to {link}"

        self.each(check)

    def test_files_named_exist(self):
        def check(path):
            for name in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", path.read_text()):
                if not (ROOT / name).exists():
                    yield f"`{name}` is not there"

        self.each(check)

    def test_readme_shows_the_two_commands_and_is_short(self):
        text = (ROOT / "README.md").read_text()
        first_screen = "\n".join(text.splitlines()[:40])
        self.assertIn("make study", first_screen)
        self.assertIn("make test", first_screen)
        self.assertLessEqual(len(text.splitlines()), 150)

    def test_every_make_target_is_explained_by_help(self):
        makefile = (ROOT / "Makefile").read_text()
        explained = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
        phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE).group(1).split())
        self.assertEqual(explained, phony)
        self.assertLessEqual({"build", "test", "study", "bench", "format", "lint", "asan", "install", "clean"}, phony)

    def test_faults_are_found(self):
        text = "Run `make stduy` or\n```sh\n$ make test JOBS=4   # all\nbuild/release/bin/smelt bugdet x\n```\n"
        self.assertEqual(unknown_make_targets(text, {"test"}), ["make stduy"])
        self.assertEqual(unknown_verbs(text, {"budget"}), ["smelt bugdet"])


if __name__ == "__main__":
    unittest.main()
