"""Checks that every folder has its tests and every test file is built."""

import os
import re
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("SMELT_SOURCE_DIR", Path(__file__).resolve().parents[2]))


class Tests(unittest.TestCase):
    def test_every_folder_has_tests(self):
        for path in sorted((ROOT / "smelt").glob("*/CMakeLists.txt")):
            self.assertTrue((ROOT / "tests" / path.parent.name / "CMakeLists.txt").exists(), f"tests/{path.parent.name}")

    def test_every_test_file_is_built(self):
        for path in sorted((ROOT / "tests").glob("*/*_test.*")):
            if path.suffix in (".cpp", ".py"):
                listed = (path.parent / "CMakeLists.txt").read_text()
                self.assertRegex(listed, rf"\b{re.escape(path.name)}\b", str(path.relative_to(ROOT)))

    def test_every_source_is_built(self):
        for path in sorted((ROOT / "smelt").glob("*/*.cpp")):
            listed = (path.parent / "CMakeLists.txt").read_text()
            self.assertRegex(listed, rf"\b{re.escape(path.name)}\b", str(path.relative_to(ROOT)))


if __name__ == "__main__":
    unittest.main()
