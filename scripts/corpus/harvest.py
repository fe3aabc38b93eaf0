"""The work on one source, in a process of its own: unpack, read, clean, drop repeats, store by
hash.

    results = harvest_all(make_jobs(sources, debs, out, log), workers, log)
    results["git-doc"].documents             # where each document is in DIR/work/git-doc

What comes out does not depend on how many processes there are or which is first.
"""

import concurrent.futures
import multiprocessing
from dataclasses import dataclass
from pathlib import Path

import choose
import output
from clean import clean, drop_boilerplate, drop_seen, keep
from files import find_files, pieces_of_file
from packages import unpack
from recipe import ALL_PACKAGES, Source


@dataclass(frozen=True)
class Document:
    """One line of a source's file in DIR/work, before it is known whether it will be used."""

    hash: int
    key: bytes
    bytes: int
    evaluation_bytes: int
    offset: int
    length: int


@dataclass(frozen=True)
class Job:
    source: Source
    debs: list  # [(package, path, folder, whether it is still to be unpacked)]
    work: Path


@dataclass
class Harvest:
    documents: list  # ascending by hash
    problems: list
    characters_before: int = 0  # before duplicates went
    characters_after: int = 0


def harvest_source(job):
    """Unpacks, reads, cleans; leaves the source's documents in DIR/work/<name>, ordered by hash."""
    source, texts, problems = job.source, [], []
    for package, path, folder, unpacking in job.debs:
        problem = unpack(path, folder) if unpacking else ""
        if problem:
            problems.append(f"{source.name}: {package} could not be unpacked ({problem})")
            continue
        for file in find_files(folder, source.globs, source.exclude, package):
            suffix = file.with_suffix("").suffix if file.suffix in (".gz", ".dz") else file.suffix
            documents = clean(source, pieces_of_file(source, file), suffix)
            texts.extend(text for text in documents if keep(source, text))
    if source.format != "text":
        texts = [text for text in drop_boilerplate(texts) if len(text) >= source.min_chars]
    kept = drop_seen(texts)
    result = Harvest([], problems, sum(map(len, texts)), sum(len(text) for text, _ in kept))
    store(job, kept, result)
    return result


def store(job, kept, result):
    """Writes the kept (text, key) ordered by hash and fills result.documents."""
    offset = 0
    with (job.work / job.source.name).open("wb") as file:
        for value, text, key in sorted(
            (choose.document_hash(text), text, key) for text, key in kept
        ):
            line = output.to_line(job.source, value, text)
            size = len(text.encode("utf-8"))
            cut = len(text[: choose.EVALUATION_CHARS].encode("utf-8"))
            file.write(line)
            result.documents.append(Document(value, key, size, cut, offset, len(line)))
            offset += len(line)


def make_jobs(sources, debs, out, log):
    """name -> Job of every source that has at least one package; a package is unpacked by the first
    that needs it.
    """
    jobs, unpacked = {}, set()
    for source in sources:
        names = sorted(debs) if ALL_PACKAGES in source.packages else source.packages
        missing = [name for name in names if name not in debs]
        if missing:
            log.warn(f"{source.name}: no package {', '.join(missing)}")
        there = [debs[name] for name in names if name in debs]
        entries = []
        for deb in there:
            entries.append(
                (deb.package, deb.path, out / "unpack" / deb.package, deb.package not in unpacked)
            )
            unpacked.add(deb.package)
        if entries:
            jobs[source.name] = Job(source, entries, out / "work")
    return jobs


def harvest_all(jobs, workers, log):
    """name -> Harvest.  Large downloads first, so that none is left alone at the end; sources of
    "*", and those that share another's package, after it.
    """
    first = [job for job in jobs.values() if all(unpacking for *_, unpacking in job.debs)]
    later = [job for job in jobs.values() if job not in first]
    first.sort(key=lambda job: -job.source.cap_bytes("quick") - job.source.download_mb * 1e5)
    results = {}
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        for batch in (first, later):
            futures = {pool.submit(harvest_source, job): job.source.name for job in batch}
            for future in concurrent.futures.as_completed(futures):
                name = futures[future]
                results[name] = future.result()
                size = sum(document.bytes for document in results[name].documents) / 1e6
                done = f"{len(results)}/{len(jobs)}"
                log(f"{done} {name}: {len(results[name].documents)} documents, {size:.1f} MB")
    for name in jobs:
        for problem in results[name].problems:
            log.warn(problem)
    return {name: results[name] for name in jobs}
