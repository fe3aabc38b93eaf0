"""Runs scripts/setup.sh on pretended machines: commands of the system are replaced by small ones in a folder that
stands first in PATH.  Nothing is installed and nothing is downloaded."""

import os
import shutil
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SMELT_SOURCE_DIR", Path(__file__).resolve().parents[2]))

# A Python whose -m venv makes a .venv with a pip that notes what it is asked for.
FAKE_PYTHON = """#!/bin/bash
case "$*" in
  "-c import ensurepip, venv") exit ${FAKE_NO_VENV:-0} ;;
  "-V") echo "Python 3.11.0" ;;
  "-m venv --clear "*)
    mkdir -p .venv/bin
    printf '#!/bin/bash\\necho "$@" >>"$FAKE_LOG"\\n' >.venv/bin/python
    chmod +x .venv/bin/python
    echo "venv" >>"$FAKE_LOG" ;;
esac
"""


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.clone = self.folder / "clone"
        for name in ("scripts/setup.sh", "scripts/requirements.txt", "scripts/corpus/requirements.txt"):
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / name, self.clone / name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.log = self.folder / "log"
        self.log.touch()
        # Only what the script itself needs of the real system.
        for name in ("bash", "env", "cat", "flock", "readlink", "dirname", "awk", "sort", "head", "rm", "mkdir", "chmod", "printf"):
            real = shutil.which(name)
            if real:
                (self.bin / name).symlink_to(real)
        self.command("python3", FAKE_PYTHON)
        self.command("cmake", "#!/bin/bash\necho cmake version ${FAKE_CMAKE:-3.28.1}\n")
        self.command("id", "#!/bin/bash\necho ${FAKE_UID:-1000}\n")
        self.command("apt-get", '#!/bin/bash\necho "apt-get $*" >>"$FAKE_LOG"\n')
        self.missing("")

    def command(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def missing(self, package):
        """A dpkg-query that knows every package but this one."""
        self.command("dpkg-query", f"""#!/bin/bash
for word in "${{@:3}}"; do
  if [ "$word" = "{package}" ]; then echo "no package $word" >&2; else printf installed; [ $# -gt 3 ] && echo; fi
done
exit 0
""")

    def run_setup(self, **environment):
        result = subprocess.run(
            [str(self.clone / "scripts/setup.sh")], capture_output=True, text=True,
            env={"PATH": str(self.bin), "FAKE_LOG": str(self.log), **environment})
        return result, self.log.read_text()

    def test_everything_there_installs_torch_and_tools_once(self):
        result, log = self.run_setup()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("apt-get", log)
        self.assertIn("install --quiet --disable-pip-version-check torch==2.13.0", log)
        self.assertIn("-r scripts/requirements.txt", log)
        self.assertNotIn("cmake", log)
        again, log_again = self.run_setup()
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertEqual(log_again.count("install"), log.count("install"))

    def test_another_torch(self):
        self.run_setup()
        _, log = self.run_setup(TORCH="/wheels/torch-2.14.0.whl")
        self.assertIn("check /wheels/torch-2.14.0.whl", log)
        self.assertEqual(log.count("venv\n"), 1, "the same .venv is used on")

    def test_own_libtorch_means_no_wheel(self):
        config = self.folder / "libtorch/share/cmake/Torch/TorchConfig.cmake"
        config.parent.mkdir(parents=True)
        config.touch()
        for path in ("libtorch", "libtorch/share/cmake"):
            result, log = self.run_setup(CMAKE_PREFIX_PATH=f"/nowhere:{self.folder / path}")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("torch==", log)

    def test_old_cmake_gets_one_from_pip(self):
        _, log = self.run_setup(FAKE_CMAKE="3.22.1")
        self.assertIn("cmake==", log)

    def test_neither_root_nor_sudo_lists_what_is_missing_and_stops(self):
        self.missing("libeigen3-dev")
        result, log = self.run_setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn("neither root nor sudo", result.stderr)
        self.assertIn("libeigen3-dev", result.stderr)
        self.assertNotIn("libfmt-dev", result.stderr)
        self.assertEqual(log, "")

    def test_root_installs_only_what_is_missing(self):
        self.missing("libfmt-dev")
        result, log = self.run_setup(FAKE_UID="0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("apt-get install -y -qq --no-install-recommends libfmt-dev\n", log)
        self.assertNotIn("update", log)

    def test_lists_are_updated_once_when_they_are_too_old(self):
        self.missing("libfmt-dev")
        self.command("apt-get", '#!/bin/bash\necho "apt-get $*" >>"$FAKE_LOG"\n'
                     '[ "$1" = update ] && touch_lists=1 && : >"$FAKE_LOG.lists"\n[ -e "$FAKE_LOG.lists" ]\n')
        result, log = self.run_setup(FAKE_UID="0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(log.count("apt-get update"), 1)
        self.assertEqual(log.count("libfmt-dev"), 2)

    def test_sudo_is_used_when_not_root(self):
        self.missing("libfmt-dev")
        self.command("sudo", '#!/bin/bash\necho "sudo $*" >>"$FAKE_LOG"\nexec "$@"\n')
        result, log = self.run_setup()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get install", log)

    def test_python_without_ensurepip_asks_for_its_package(self):
        result, _ = self.run_setup(FAKE_NO_VENV="1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("python3-venv", result.stderr)

    def test_a_moved_clone_starts_over(self):
        self.run_setup()
        moved = self.folder / "moved"
        self.clone.rename(moved)
        self.clone = moved
        _, log = self.run_setup()
        self.assertEqual(log.count("venv\n"), 2)


if __name__ == "__main__":
    unittest.main()
