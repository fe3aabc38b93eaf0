"""The whole script on packages made here, with stand-ins for apt-get and apt-cache on the PATH."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import SCRIPTS

from recipe import CorpusError, load

DOMAINS = {"Code": "code", "Finance": "finance", "Knowledge": "knowledge", "Web": "web"}
WORDS = "the of and to corn wheat rye oats barley price of grain in market with ship".split()

APT_CACHE = """#!/bin/sh
[ -e "$REPOSITORY/offline" ] && exit 100
for word; do [ -e "$REPOSITORY/$word.show" ] && cat "$REPOSITORY/$word.show" && echo; done
case "$*" in *pkgnames*) cd "$REPOSITORY" && ls *.show | sed 's/.show$//' ;; esac
exit 0
"""
APT_GET = """#!/bin/sh
echo "$*" >> "$REPOSITORY/calls"
[ -e "$REPOSITORY/offline" ] && echo "E: Could not resolve 'nowhere'" >&2 && exit 100
status=0
for word; do
  [ -e "$REPOSITORY/$word.show" ] || continue
  if [ -e "$REPOSITORY/${word}_1_all.deb" ]; then
    cp "$REPOSITORY/${word}_1_all.deb" . && echo "Get:1 $word"
  else echo "E: no file for $word"; status=100; fi
done
exit $status
"""


def make_text(seed, count):
    """`count` documents of about 500 characters."""
    random_ = random.Random(seed)
    return "\n@@\n".join(
        f"Document {seed} {number}. " + " ".join(random_.choices(WORDS, k=100))
        for number in range(count)
    )


@unittest.skipUnless(shutil.which("dpkg-deb"), "needs dpkg-deb")
class Corpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.master = Path(cls.folder.name) / "master"
        cls.master.mkdir()
        names = ["code", "finance", "knowledge", "web", "maths", "spare-2"]
        for number, name in enumerate(names):
            cls.make_package(name, {f"usr/share/doc/{name}/a.txt": make_text(number, 3000)})

    @classmethod
    def make_package(cls, name, files):
        root = Path(cls.folder.name) / "build" / name
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "DEBIAN").mkdir(parents=True)
        control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\n"
        (root / "DEBIAN/control").write_text(control + "Description: x\n")
        deb = cls.master / f"{name}_1_all.deb"
        command = ["dpkg-deb", "-Znone", "--root-owner-group", "-b", str(root), str(deb)]
        subprocess.run(command, check=True, capture_output=True)
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        show = f"{control}Installed-Size: 9\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
        (cls.master / f"{name}.show").write_text(show)

    def setUp(self):
        self.base = Path(tempfile.mkdtemp(dir=self.folder.name))
        self.repository = self.base / "repository"
        shutil.copytree(self.master, self.repository)
        tools = self.base / "bin"
        tools.mkdir()
        for name, text in (("apt-get", APT_GET), ("apt-cache", APT_CACHE)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.path = f"{tools}:{os.environ['PATH']}"
        self.recipe = self.base / "recipe.toml"
        self.write_recipe()

    def write_recipe(self, extra="", maths="maths"):
        text = 'schema = "smelt.recipe/1"\n'
        for name, domain in (
            ("maths", "Math/STEM"),
            ("web", "Web"),
            ("finance", "Finance"),
            ("knowledge", "Knowledge"),
            ("code", "Code"),
        ):
            package = maths if name == "maths" else name
            text += (
                f'[[source]]\nname = "{name}"\ndomain = "{domain}"\nlicence = "none"\n'
                f'packages = ["{package}"]\nglobs = ["**/*.txt"]\nformat = "text"\n'
                'split = "\\n@@\\n"\nmax_mb = 1.2\nquick_mb = 1.1\nexpected_mb = 1.2\n'
            )
        self.recipe.write_text(text + extra)

    def run_corpus(self, out="out", *options, seed="0", status=0):
        result = subprocess.run(
            [sys.executable, SCRIPTS / "corpus.py", "--recipe", self.recipe]
            + ["--out", self.base / out, *options],
            env={
                **os.environ,
                "PATH": self.path,
                "REPOSITORY": str(self.repository),
                "PYTHONHASHSEED": seed,
            },
            capture_output=True,
            text=True,
        )
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def files(self, out="out"):
        root = self.base / out
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.name != ".lock"
        }

    def manifest(self, out="out"):
        return json.loads((self.base / out / "manifest.json").read_bytes())

    def test_output(self):
        self.run_corpus()
        files = self.files()
        names = [f"{slug}/{slug}" for slug in DOMAINS.values()] + ["math-stem/maths"]
        expected = [f"{name}{end}" for name in names for end in (".jsonl", ".valid.jsonl")]
        self.assertEqual(sorted(files), sorted([*expected, "manifest.json"]))
        manifest = self.manifest()
        self.assertEqual(manifest["schema"], "smelt.corpus/1")
        self.assertEqual(
            sorted(manifest["packages"]), ["code", "finance", "knowledge", "maths", "web"]
        )
        deb = (self.repository / "web_1_all.deb").read_bytes()
        self.assertEqual(
            manifest["packages"]["web"],
            {"version": "1", "sha256": hashlib.sha256(deb).hexdigest()},
        )
        for name, entry in manifest["files"].items():
            self.assertEqual(entry["sha256"], hashlib.sha256(files[name]).hexdigest())
            self.assertEqual(entry["documents"], files[name].count(b"\n"))
        self.assertEqual(manifest["warnings"], [])

    def test_documents(self):
        self.run_corpus()
        training, held_out = (
            [json.loads(line) for line in (self.base / "out" / name).read_bytes().splitlines()]
            for name in ("math-stem/maths.jsonl", "math-stem/maths.valid.jsonl")
        )
        for document in training + held_out:
            digest = hashlib.sha256(document["text"].encode()).hexdigest()[:16]
            self.assertEqual(document["id"], f"maths/{digest}")
            self.assertEqual((document["source"], document["domain"]), ("maths", "Math/STEM"))
        for documents in (training, held_out):
            ids = [document["id"] for document in documents]
            self.assertEqual(ids, sorted(ids))
        limit = f"maths/{int(0.02 * 2**64):016x}"
        self.assertLess(held_out[-1]["id"], limit)
        self.assertGreater(training[0]["id"], limit)
        size = sum(len(document["text"]) for document in training + held_out)
        self.assertTrue(1.1e6 <= size < 1.1e6 + 1000, size)

    def test_same_bytes_each_time(self):
        self.run_corpus("one", "--jobs", "1", seed="1")
        self.run_corpus("two", "--jobs", "3", seed="2")
        self.assertEqual(self.files("one"), self.files("two"))

    def test_quick_is_part_of_full(self):
        self.write_recipe(
            '[[source]]\nname = "a-first"\ndomain = "Web"\nlicence = ""\npackages = ["code"]\n'
            'globs = ["**/*.txt"]\nformat = "text"\nsplit = "\\n@@\\n"\nmax_mb = 0.9\n'
        )
        self.run_corpus("quick")
        self.run_corpus("full", "--subset", "full", "--sources", "code,web,maths,a-first", status=0)
        quick, full = self.files("quick"), self.files("full")
        for name in ("code/code.jsonl", "web/web.valid.jsonl", "math-stem/maths.jsonl"):
            self.assertLessEqual(set(quick[name].split(b"\n")), set(full[name].split(b"\n")))
        self.assertIn("a-first", " ".join(self.manifest("full")["warnings"]))  # all repeats of code

    def test_nothing_to_do(self):
        self.run_corpus()
        before = self.files()
        calls = (self.repository / "calls").read_text()
        self.assertIn("nothing to do", self.run_corpus())
        self.assertEqual((self.repository / "calls").read_text(), calls)
        (self.base / "out/web/web.jsonl").write_bytes(b"cut")
        self.assertNotIn("nothing to do", self.run_corpus())
        self.assertEqual(self.files(), before)

    def test_packages_are_kept_and_reused(self):
        self.run_corpus("out", "--keep-packages", "--sources", "web,code")
        self.assertTrue((self.base / "out/packages/web_1_all.deb").exists())
        (self.base / "out/packages/code_1_all.deb").write_bytes(b"damaged")
        (self.base / "out/manifest.json").unlink()
        (self.repository / "calls").unlink()
        self.run_corpus("out", "--sources", "web,code")
        downloads = (self.repository / "calls").read_text()
        self.assertIn(" code", downloads)
        self.assertNotIn(" web", downloads)
        self.assertFalse((self.base / "out/packages").exists())
        self.assertFalse((self.base / "out/unpack").exists())

    def test_offline_with_kept_packages(self):
        self.run_corpus("out", "--keep-packages")
        before = self.files()
        (self.base / "out/manifest.json").unlink()
        (self.repository / "offline").touch()
        self.run_corpus("out", "--keep-packages")
        self.assertEqual(self.files(), before)

    def test_offline(self):
        (self.repository / "offline").touch()
        errors = self.run_corpus(status=1)
        self.assertIn("none of the packages can be had; is this machine offline", errors)
        self.assertNotIn("Traceback", errors)

    def test_another_number(self):
        self.write_recipe(maths="spare-1")
        self.assertIn("spare-1 is not there: taking spare-2", self.run_corpus())
        self.assertIn("spare-2", self.manifest()["packages"])

    def test_missing_source_is_replaced(self):
        self.write_recipe(
            '[[source]]\nname = "gone"\ndomain = "Web"\nlicence = ""\npackages = ["gone"]\n'
            'globs = ["**/*"]\nformat = "text"\nmax_mb = 0.3\nquick_mb = 0.2\nexpected_mb = 0.3\n'
        )
        self.run_corpus()
        self.assertIn("gone: no package gone", self.manifest()["warnings"])
        domains = self.manifest()["domains"]
        web, code = (
            domains[name]["bytes"] + domains[name]["held_out_bytes"] for name in ("Web", "Code")
        )
        self.assertAlmostEqual(web - code, 0.2e6, delta=2000)

    def test_floor(self):
        (self.repository / "maths.show").unlink()
        errors = self.run_corpus(status=1)
        self.assertIn("too little text in Math/STEM (0.00 MB): a domain needs 1 MB", errors)
        self.assertFalse((self.base / "out/manifest.json").exists())

    def test_old_files_go(self):
        self.run_corpus()
        self.run_corpus("out", "--sources", "web")
        self.assertEqual(
            sorted(self.files()), ["manifest.json", "web/web.jsonl", "web/web.valid.jsonl"]
        )

    def test_bad_requests(self):
        self.assertIn("no source named nope", self.run_corpus("out", "--sources", "nope", status=1))
        self.run_corpus("out", "--jobs", "0", status=2)
        blocked = self.base / "file"
        blocked.write_text("")
        self.assertIn("[corpus]", self.run_corpus("file/below", status=1))


class Recipe(unittest.TestCase):
    def load(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "r.toml"
            path.write_text(text)
            return load(path)

    def test_own_recipe(self):
        sources = load(SCRIPTS / "sources.toml").sources
        self.assertEqual(len(sources), 52)
        packages = {name for source in sources if source.quick_mb for name in source.packages}
        self.assertEqual(len(packages), 45)

    def test_all_problems_at_once(self):
        with self.assertRaises(CorpusError) as caught:
            self.load(
                'schema = "smelt.recipe/1"\nx = 1\n[[source]]\nname = "a"\ndomain = "Sports"\n'
                'licence = ""\npackages = []\nglobs = []\nformat = "pdf"\nsplit = "("\nsize = 1\n'
            )
        message = str(caught.exception)
        for part in (
            "unknown key 'x'",
            "unknown key 'size'",
            "'max_mb' is missing",
            "domain must be one of Code,",
            "got 'Sports'",
            "format must be one of text, html, xml",
            "bad regex '('",
        ):
            self.assertIn(part, message)

    def test_broken_toml(self):
        with self.assertRaisesRegex(CorpusError, "line 2"):
            self.load("schema = 'x'\n= 3\n")
        with self.assertRaisesRegex(CorpusError, "cannot read"):
            load(Path("/nowhere/r.toml"))


if __name__ == "__main__":
    unittest.main()
