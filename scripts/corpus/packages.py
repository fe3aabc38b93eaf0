"""Debian packages without root: which versions apt offers, download, checking and unpacking.

offers = find_offers(["git-doc"], state)      # name -> Offer; runs `apt-get update` only when one
is missing debs = fetch(offers, folder, log)             # name -> Deb, reusing what is there
unpack(debs["git-doc"], folder / "git-doc")
"""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from recipe import CorpusError

ENVIRONMENT = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}


@dataclass(frozen=True)
class Offer:
    """What apt would download for a name of the recipe (`package` differs when only another number
    is there).
    """

    package: str
    version: str
    bytes: int
    sha256: str
    installed_bytes: int


@dataclass(frozen=True)
class Deb:
    package: str
    version: str
    sha256: str
    path: Path


def run(command, cwd=None):
    """Runs to the end; a CompletedProcess with text output, never raises for an exit status."""
    return subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, errors="replace"
    )


def require_tools():
    missing = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb") if not shutil.which(tool)]
    if missing:
        raise CorpusError(
            f"[packages] {', '.join(missing)} not found: the built-in corpus comes from"
            " Debian packages; on other systems use text of your own, one folder per domain"
            " (docs/corpus.md)"
        )


class Apt:
    """apt with its own package lists below `state` once `update` had to make them without root."""

    def __init__(self, state):
        self.state = state
        self.options = [
            "-o",
            "APT::Sandbox::User=root",
            "-o",
            "Acquire::Retries=3",
            "-o",
            "Acquire::http::Timeout=30",
        ]
        if (state / "lists").is_dir():
            self.use_own_lists()

    def use_own_lists(self):
        for folder in ("lists/partial", "cache/archives/partial"):
            (self.state / folder).mkdir(parents=True, exist_ok=True)
        self.options += [
            "-o",
            f"Dir::State::Lists={self.state}/lists",
            "-o",
            f"Dir::Cache={self.state}/cache",
        ]

    def update(self):
        """Refreshes the lists: the system's as root, else our own.  Returns apt's complaint
        or ''.
        """
        if os.geteuid() != 0 and not (self.state / "lists").is_dir():
            self.use_own_lists()
        result = run(["apt-get", *self.options, "-q", "update"])
        lines = [line for line in result.stderr.splitlines() if line.startswith(("E:", "W:"))]
        return lines[0] if lines else ("" if result.returncode == 0 else "apt-get update failed")

    def show(self, names):
        """name -> Offer for those that apt knows."""
        result = run(["apt-cache", *self.options, "--no-all-versions", "show", *names])
        offers = {}
        for paragraph in result.stdout.split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): *(.*)$", paragraph, re.MULTILINE))
            if fields.get("Package") in names and "SHA256" in fields:
                offers[fields["Package"]] = Offer(
                    fields["Package"],
                    fields["Version"],
                    int(fields["Size"]),
                    fields["SHA256"],
                    1024 * int(fields.get("Installed-Size", 0)),
                )
        return offers

    def other_number(self, name):
        """'postgresql-doc-15' -> 'postgresql-doc-17' when this release has that, else None."""
        if not re.search(r"\d", name):
            return None
        pattern = re.compile(
            r"\d+(?:\.\d+)*".join(map(re.escape, re.split(r"\d+(?:\.\d+)*", name)))
        )
        prefix = re.split(r"\d", name)[0]
        known = run(["apt-cache", *self.options, "pkgnames", prefix]).stdout.split()
        found = [other for other in known if pattern.fullmatch(other)]
        return max(
            found,
            key=lambda other: [int(number) for number in re.findall(r"\d+", other)],
            default=None,
        )


def find_offers(names, state, log):
    """(name -> Offer, Apt, apt's complaint).  Names that are nowhere are left out."""
    apt = Apt(state)
    offers = apt.show(names)
    complaint = ""
    if len(offers) < len(names):
        log("apt-get update")
        complaint = apt.update()
        offers = apt.show(names)
    for name in names:
        other = None if name in offers else apt.other_number(name)
        found = apt.show([other]) if other else {}
        if found:
            log(f"{name} is not there: taking {other}")
            offers[name] = found[other]
    return offers, apt, complaint


def sha256_of(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def find_deb(offer, folder):
    """The downloaded file of an offer, whole and unchanged, or None; a damaged one is removed."""
    for path in sorted(folder.glob(f"{offer.package}_*.deb")):
        if path.stat().st_size == offer.bytes and sha256_of(path) == offer.sha256:
            return Deb(offer.package, offer.version, offer.sha256, path)
        if f"_{offer.version.replace(':', '%3a')}_" in path.name:
            path.unlink()
    return None


def any_deb(package, folder):
    """A file of the package that an earlier run kept, of whatever version, or None."""
    for path in sorted(folder.glob(f"{package}_*.deb"), reverse=True):
        result = run(["dpkg-deb", "-f", str(path), "Version"])
        if result.returncode == 0:
            return Deb(package, result.stdout.strip(), sha256_of(path), path)
    return None


def fetch(names, offers, apt, folder, log):
    """name -> Deb.  Downloads into `folder` what is not there, and takes an older file when that
    fails; names that cannot be had are left out.  Returns (debs, apt's complaint).
    """
    folder.mkdir(parents=True, exist_ok=True)
    debs = {name: find_deb(offer, folder) for name, offer in offers.items()}
    wanted = {offers[name].package: offers[name] for name, deb in debs.items() if deb is None}
    complaint = ""
    if wanted:
        megabytes = sum(offer.bytes for offer in wanted.values()) / 1e6
        log(f"downloading {len(wanted)} packages, {megabytes:.1f} MB")
        complaint = download(sorted(wanted), apt, folder, log)
        debs = {name: deb or find_deb(offers[name], folder) for name, deb in debs.items()}
    for name in names:
        if not debs.get(name):
            debs[name] = any_deb(name, folder)
    return {name: deb for name, deb in debs.items() if deb}, complaint


def download(packages, apt, folder, log):
    """One apt-get for all; when that fails (one bad package stops it) each by itself.  Returns the
    last complaint.
    """
    complaint = apt_download(packages, apt, folder, log)
    if complaint and len(packages) > 1 and "space" not in complaint:
        for package in packages:
            if not list(folder.glob(f"{package}_*.deb")):
                complaint = apt_download([package], apt, folder, log) or complaint
                if "resolve" in complaint or "onnect" in complaint:
                    break
    return complaint


def apt_download(packages, apt, folder, log):
    process = subprocess.Popen(
        ["apt-get", *apt.options, "-q", "download", *packages],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    complaint, count = "", 0
    with process:
        for line in process.stdout:
            count += line.startswith("Get:")
            if line.startswith("Get:") and (count % 10 == 0 or count == len(packages)):
                log(f"downloading {count}/{len(packages)}")
            if line.startswith("E:"):
                complaint = complaint or line[2:].strip()
    return complaint or ("" if process.returncode == 0 else "apt-get download failed")


def unpack(path, folder):
    """Unpacks one .deb.  Returns '' or what went wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    result = run(["dpkg-deb", "-x", str(path), str(folder)])
    return (
        ""
        if result.returncode == 0
        else (result.stderr.strip().splitlines() or ["dpkg-deb failed"])[-1]
    )
