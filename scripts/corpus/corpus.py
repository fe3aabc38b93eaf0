#!/usr/bin/env python3
"""Makes the built-in corpus: text of five domains out of Debian packages (docs/corpus.md).

    python scripts/corpus/corpus.py --out data/corpus --subset quick

writes DIR/<domain>/<source>.jsonl (training) and <source>.valid.jsonl (held out), each line {"id",
"text", "source", "domain"}, and DIR/manifest.json.  Needs no root.  Running it again costs nothing
when the corpus is complete, and after an interruption uses what was downloaded.  Progress goes to
stderr.
"""

import argparse
import errno
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import choose
import output
import recipe as recipes
from harvest import harvest_all, make_jobs
from recipe import ALL_PACKAGES, DOMAINS, CorpusError

FLOOR_BYTES = {"quick": 1e6, "full": 4e6}  # a domain with less than this is an error
WARN_BELOW, MISSING_BELOW = 0.70, 0.20  # of what was measured
LOCK_SECONDS = 15


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description="Make the built-in corpus out of Debian packages.")
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="folder of the corpus"
    )
    parser.add_argument(
        "--subset", choices=["quick", "full"], default="quick", help="default: quick"
    )
    parser.add_argument(
        "--sources", metavar="A,B", help="only these sources; no floor per domain then"
    )
    parser.add_argument(
        "--with-optional", action="store_true", help="also sources that are large for their text"
    )
    parser.add_argument(
        "--keep-packages", action="store_true", help="keep the downloaded packages in DIR/packages"
    )
    parser.add_argument(
        "--jobs", type=int, default=min(os.cpu_count() or 1, 16), metavar="N", help="processes"
    )
    parser.add_argument(
        "--recipe", type=Path, default=Path(__file__).with_name("sources.toml"), help="recipe file"
    )
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    return options


class Log:
    """Progress on stderr with the seconds since the start; keeps warnings for the manifest."""

    def __init__(self):
        self.start = time.monotonic()
        self.warnings = []

    def __call__(self, text):
        print(
            f"[corpus {time.monotonic() - self.start:5.1f} s] {text}", file=sys.stderr, flush=True
        )

    def warn(self, text):
        self.warnings.append(text)
        self(f"warning: {text}")


def drop_repeats_across(sources, results):
    """Exact duplicates over all sources: the first source keeps the document.  Returns name ->
    documents.
    """
    seen, kept = set(), {}
    for source in sources:
        if source.name not in results:
            continue
        kept[source.name] = [
            item for item in results[source.name].documents if item.key not in seen
        ]
        seen.update(item.key for item in kept[source.name])
    return kept


def find_missing(sources, kept, log):
    """Names of sources with too little text to count; warns about those with less than was
    measured.
    """
    missing = set()
    for source in sources:
        documents = kept.get(source.name, [])
        count = choose.fill([item.bytes for item in documents], 1e6 * source.max_mb)
        megabytes = sum(item.bytes for item in documents[:count]) / 1e6
        if not documents or megabytes < MISSING_BELOW * source.expected_mb:
            missing.add(source.name)
            log.warn(
                f"{source.name}: {megabytes:.2f} MB of {source.expected_mb} expected:"
                " counts as missing"
            )
        elif (
            megabytes < WARN_BELOW * source.expected_mb
            or count < WARN_BELOW * source.expected_documents
        ):
            log.warn(
                f"{source.name}: {megabytes:.2f} MB in {count} documents,"
                f" expected {source.expected_mb} MB in {source.expected_documents}"
            )
    return missing


def choose_caps(sources, kept, missing, subset):
    """name -> bytes, after the others of a domain took over the shares of missing sources."""
    caps = {}
    for domain in DOMAINS:
        group = [source for source in sources if source.domain == domain]
        lost = {
            source.name: min(
                source.cap_bytes(subset), int(1e6 * source.expected_mb) or source.cap_bytes(subset)
            )
            for source in group
            if source.name in missing
        }
        available = {
            source.name: sum(item.bytes for item in kept.get(source.name, [])) for source in group
        }
        caps.update(choose.share_out({s.name: s.cap_bytes(subset) for s in group}, available, lost))
    return caps


# Writing


def write_source(out, source, documents, held_out):
    """Copies the chosen lines of DIR/work/<name> to their file; returns its manifest entry."""
    path = output.jsonl_path(out, source, held_out)
    text_bytes = 0
    with (out / "work" / source.name).open("rb") as stored, output.Aside(path) as file:
        for item in documents:
            stored.seek(item.offset)
            line = stored.read(item.length)
            if held_out:
                text = json.loads(line)["text"][: choose.EVALUATION_CHARS]
                line = output.to_line(source, item.hash, text)
            file.write(line)
            text_bytes += item.evaluation_bytes if held_out else item.bytes
    entry = {
        "documents": len(documents),
        "text_bytes": text_bytes,
        "bytes": file.bytes,
        "sha256": file.digest.hexdigest(),
    }
    return path, entry


def write_corpus(out, plan, results, debs, manifest, log):
    """Writes every file, then the manifest.  `plan`: [(source, training, evaluation)]."""
    (out / "manifest.json").unlink(missing_ok=True)
    files = {}
    domains = {
        domain: {"documents": 0, "bytes": 0, "held_out_documents": 0, "held_out_bytes": 0}
        for domain in DOMAINS
    }
    entries = {}
    for source, training, evaluation in plan:
        counts = {}
        for held_out, documents in ((False, training), (True, evaluation)):
            path, entry = write_source(out, source, documents, held_out)
            files[path] = entry
            prefix = "held_out_" if held_out else ""
            counts[prefix + "documents"] = entry["documents"]
            counts[prefix + "bytes"] = entry["text_bytes"]
        for key, value in counts.items():
            domains[source.domain][key] += value
        harvest = results[source.name]
        before = max(harvest.characters_before, 1)
        entries[source.name] = {
            "domain": source.domain,
            "licence": source.licence,
            **counts,
            "duplicate_share": round(1 - harvest.characters_after / before, 4),
        }
    manifest["packages"] = {
        deb.package: {"version": deb.version, "sha256": deb.sha256}
        for _, deb in sorted(debs.items())
    }
    manifest["sources"] = entries
    manifest["domains"] = {name: counts for name, counts in domains.items() if counts["documents"]}
    manifest["files"] = {str(path.relative_to(out)): entry for path, entry in sorted(files.items())}
    manifest["warnings"] = log.warnings
    output.remove_others(out, set(files))
    output.write_manifest(out, manifest)


def check_floor(plan, subset):
    totals = dict.fromkeys(DOMAINS, 0)
    for source, training, evaluation in plan:
        totals[source.domain] += sum(item.bytes for item in training + evaluation)
    low = [
        f"{name} ({size / 1e6:.2f} MB)"
        for name, size in totals.items()
        if size < FLOOR_BYTES[subset]
    ]
    if low:
        raise CorpusError(
            f"[corpus] too little text in {', '.join(low)}:"
            f" a domain needs {FLOOR_BYTES[subset] / 1e6:.0f} MB;"
            " see the warnings above, or use text of your own (docs/corpus.md)"
        )


def check_space(out, offers, sources, subset):
    """Room for the packages, their unpacked files and the corpus twice."""
    unique = {offer.package: offer for offer in offers.values()}.values()
    text = sum(source.cap_bytes(subset) for source in sources) + 1e6 * sum(
        source.max_mb for source in sources
    )
    needed = sum(offer.bytes + offer.installed_bytes for offer in unique) + 2 * text
    free = shutil.disk_usage(out).free
    if free < needed:
        raise CorpusError(
            f"[corpus] no space: {out} has {free / 1e6:.0f} MB free,"
            f" {needed / 1e6:.0f} MB are needed"
        )


def make(options, sources, manifest, log):
    """Everything from packages to manifest."""
    from packages import fetch, find_offers, require_tools

    out = options.out.resolve()
    require_tools()
    names = list(
        dict.fromkeys(
            name for source in sources for name in source.packages if name != ALL_PACKAGES
        )
    )
    log(f"{options.subset} corpus: {len(sources)} sources, {len(names)} packages")
    offers, apt, no_update = find_offers(names, out / "apt", log)
    check_space(out, offers, sources, options.subset)
    debs, no_download = fetch(names, offers, apt, out / "packages", log)
    if not debs:
        raise CorpusError(
            "[packages] none of the packages can be had; is this machine offline, or not Debian?"
            f" (apt: {no_download or no_update or 'none of them is known'})"
        )
    for folder in ("unpack", "work"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir()
    jobs = make_jobs(sources, debs, out, log)
    results = harvest_all(jobs, options.jobs, log)
    kept = drop_repeats_across(sources, results)
    missing = find_missing(sources, kept, log)
    caps = choose_caps(sources, kept, missing, options.subset)
    plan = [
        (source, *choose.split_and_cap(kept[source.name], caps[source.name]))
        for source in sorted(sources, key=lambda source: source.name)
        if source.name not in missing
    ]
    if not options.sources:
        check_floor(plan, options.subset)
    write_corpus(out, plan, results, debs, manifest, log)


def run(options, log):
    recipe = recipes.load(options.recipe)
    names = options.sources.split(",") if options.sources else None
    sources = recipes.choose_sources(recipe, options.subset, names, options.with_optional)
    selection = ",".join(sorted(source.name for source in sources))
    fingerprint = hashlib.sha256(f"{recipe.fingerprint}\n{selection}".encode()).hexdigest()
    if output.is_complete(options.out, fingerprint, options.subset):
        log(f"{options.out} is complete: nothing to do")
        return
    check_parser(sources)
    options.out.mkdir(parents=True, exist_ok=True)
    manifest = {"schema": output.MANIFEST_SCHEMA, "subset": options.subset, "recipe": fingerprint}
    with (options.out / ".lock").open("w") as lock:
        take_lock(lock, options.out)
        try:
            make(options, sources, manifest, log)
        finally:
            for folder in ("unpack", "work"):
                shutil.rmtree(options.out / folder, ignore_errors=True)
        if not options.keep_packages:
            for folder in ("packages", "apt"):
                shutil.rmtree(options.out / folder, ignore_errors=True)
    report(manifest, log)


def take_lock(lock, out):
    """One run at a time; waits a little for the workers of a run that was killed to end."""
    patience = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > patience:
                raise CorpusError(f"[corpus] another run is at work in {out}") from error
            time.sleep(0.2)


def check_parser(sources):
    """Says at the start, not after the download, that the HTML parser is not installed."""
    if any(source.format != "text" for source in sources):
        try:
            import lxml.etree  # noqa: F401
        except ImportError as error:
            raise CorpusError(
                f"[corpus] {error}: pip install -r {Path(__file__).with_name('requirements.txt')}"
            ) from error


def report(manifest, log):
    for name, counts in manifest["domains"].items():
        log(
            f"{name:<10} {counts['bytes'] / 1e6:6.2f} MB in {counts['documents']} documents,"
            f" held out {counts['held_out_bytes'] / 1e6:.2f} MB in {counts['held_out_documents']}"
        )


def main(arguments=None):
    options, log = parse_arguments(arguments), Log()
    try:
        run(options, log)
    except CorpusError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        what = (
            "no space left on the disk"
            if error.errno == errno.ENOSPC
            else error.strerror or str(error)
        )
        print(f"[corpus] {what}{f' ({error.filename})' if error.filename else ''}", file=sys.stderr)
        return 1
    except BrokenProcessPool:
        print("[corpus] a worker process was killed; out of memory? try --jobs 1", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("[corpus] interrupted; the next run uses what was downloaded", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
