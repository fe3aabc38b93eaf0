"""Checks every #include of the project against the table of folders in the top CMakeLists.txt.

A folder may include headers of its own and of the folders that its USES names; a folder without TORCH may not include
LibTorch.  That table is the architecture, so it must also be free of cycles and hold every folder there is.
"""

import os
import re
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("SMELT_SOURCE_DIR", Path(__file__).resolve().parents[2]))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2)/")


def folder_table(text):
    """{folder: (uses, with LibTorch)} out of the smelt_folder(...) lines, in their order."""
    table = {}
    for words in re.findall(r"^smelt_folder\(([^)]*)\)", text, re.MULTILINE):
        name, *rest = words.split()
        torch = "TORCH" in rest
        table[name] = ([word for word in rest if word not in ("USES", "TORCH")], torch)
    return table


def forbidden_includes(table, folder, text, siblings=()):
    """The includes of one file of `folder` that the table does not allow; `siblings` are the folder's headers."""
    uses, torch = table[folder]
    wrong = []
    for quote, path in INCLUDE.findall(text):
        if path.startswith("smelt/"):
            target = path.split("/")[1]
            if target != folder and target not in uses:
                wrong.append(f"{path}: {folder} does not use {target}")
        elif path.startswith(("cli/", "tests/", "bench/")):
            wrong.append(f"{path}: the library stands below {path.split('/')[0]}/")
        elif TORCH_HEADER.match(path) and not torch:
            wrong.append(f"{path}: {folder} is built without LibTorch")
        elif quote == '"' and path in siblings:  # others without a folder are made by the build
            wrong.append(f'{path}: includes name the whole path, "smelt/{folder}/{path}"')
    return wrong


class Includes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = folder_table((ROOT / "CMakeLists.txt").read_text())

    def test_table_is_read(self):
        self.assertEqual(self.table["core"], ([], False))
        self.assertIn("budget", self.table["plan"][0])
        self.assertTrue(self.table["model"][1])

    def test_uses_point_upwards(self):
        seen = []
        for folder, (uses, torch) in self.table.items():
            for used in uses:
                self.assertIn(used, seen, f"{folder} uses {used}, which stands below it")
                self.assertFalse(self.table[used][1] and not torch, f"{folder} uses {used}, which needs LibTorch")
            seen.append(folder)

    def test_every_folder_is_in_the_table(self):
        there = {path.parent.name for path in (ROOT / "smelt").glob("*/CMakeLists.txt")}
        self.assertLessEqual(there, set(self.table))

    def test_includes_follow_the_table(self):
        wrong, files = [], 0
        for folder in self.table:
            siblings = {path.name for path in (ROOT / "smelt" / folder).rglob("*.h")}
            for path in sorted((ROOT / "smelt" / folder).rglob("*")):
                if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                    files += 1
                    found = forbidden_includes(self.table, folder, path.read_text(), siblings)
                    wrong += [f"{path.relative_to(ROOT)}: {problem}" for problem in found]
        self.assertGreater(files, 20)
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_torch_free_verbs_include_no_torch(self):
        plain = re.search(r"set\(verbs ([^)]*)\)", (ROOT / "cli/CMakeLists.txt").read_text()).group(1).split()
        torch_folders = {folder for folder, (_, torch) in self.table.items() if torch}
        for verb in plain:
            path = ROOT / "cli" / f"{verb}.cpp"
            if not path.exists():
                continue
            for _, include in INCLUDE.findall(path.read_text()):
                self.assertFalse(TORCH_HEADER.match(include), f"{path}: {include}")
                if include.startswith("smelt/"):
                    self.assertNotIn(include.split("/")[1], torch_folders, f"{path}: {include}")

    def test_public_headers_do_not_need_fmt(self):
        """The installed package does not carry fmt."""
        for path in sorted((ROOT / "smelt").rglob("*.h")):
            self.assertNotRegex(path.read_text(), r"#\s*include\s*<fmt/", str(path.relative_to(ROOT)))

    def test_a_wrong_include_is_found(self):
        table = {"core": ([], False), "law": (["core"], False), "model": (["core"], True)}
        text = '#include "smelt/core/error.h"\n#include "smelt/model/x.h"\n#include <torch/torch.h>\n#include "y.h"\n'
        self.assertEqual(len(forbidden_includes(table, "law", text, {"y.h"})), 3)
        self.assertEqual(len(forbidden_includes(table, "model", text, {"y.h"})), 1)
        self.assertEqual(forbidden_includes(table, "law", '#include "cli/verb.h"\n'), ["cli/verb.h: the library stands below cli/"])


if __name__ == "__main__":
    unittest.main()
