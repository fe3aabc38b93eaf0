"""The files of a corpus: JSONL per source, written aside and renamed, and manifest.json, written
last.

with Aside(path) as file:
    file.write(b"...")       # `path` appears, whole, when the block ends
"""

import hashlib
import json
import os

from recipe import DOMAINS

MANIFEST_SCHEMA = "smelt.corpus/1"


class Aside:
    """Binary file that takes its place only when everything was written; counts bytes and hashes
    them.
    """

    def __init__(self, path):
        self.path = path
        self.temporary = path.with_name(path.name + ".part")
        self.digest = hashlib.sha256()
        self.bytes = 0

    def __enter__(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.temporary.open("wb")
        return self

    def write(self, data):
        self.file.write(data)
        self.digest.update(data)
        self.bytes += len(data)

    def __exit__(self, kind, *_):
        if kind is None:
            self.file.flush()
            os.fsync(self.file.fileno())
        self.file.close()
        if kind is None:
            self.temporary.replace(self.path)
        else:
            self.temporary.unlink(missing_ok=True)


def to_line(source, hash64, text):
    """One document as a line of JSONL."""
    record = {
        "id": f"{source.name}/{hash64:016x}",
        "text": text,
        "source": source.name,
        "domain": source.domain,
    }
    return json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n"


def jsonl_path(out, source, held_out):
    return out / DOMAINS[source.domain] / f"{source.name}{'.valid' if held_out else ''}.jsonl"


def write_manifest(out, manifest):
    with Aside(out / "manifest.json") as file:
        file.write(json.dumps(manifest, ensure_ascii=False, indent=1).encode("utf-8") + b"\n")


def is_complete(out, fingerprint, subset):
    """Whether `out` holds exactly this corpus already: its manifest, and every file with the size
    it had.
    """
    try:
        manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
        if (manifest["schema"], manifest["recipe"], manifest["subset"]) != (
            MANIFEST_SCHEMA,
            fingerprint,
            subset,
        ):
            return False
        return all(
            (out / path).stat().st_size == entry["bytes"]
            for path, entry in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def remove_others(out, wanted):
    """Removes JSONL files of earlier runs that are no part of this corpus."""
    for folder in DOMAINS.values():
        for path in sorted((out / folder).glob("*.jsonl*")):
            if path not in wanted:
                path.unlink()
