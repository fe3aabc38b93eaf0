"""The recipe: reads sources.toml into Source records and reports everything that is wrong with it
at once.

recipe = load(Path("sources.toml"))
[source.name for source in recipe.sources if source.quick_mb]
"""

import dataclasses
import hashlib
import re
from dataclasses import dataclass, field

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

SCHEMA = "smelt.recipe/1"
RULES = "1"  # goes into the fingerprint; raise it when the code makes other text of the same recipe
DOMAINS = {  # domain -> folder
    "Code": "code",
    "Math/STEM": "math-stem",
    "Knowledge": "knowledge",
    "Finance": "finance",
    "Web": "web",
}
ALL_PACKAGES = "*"


class CorpusError(Exception):
    """A failure the user can act on; shown as one line."""


@dataclass(frozen=True)
class Source:
    """One [[source]] of the recipe; sources.toml explains the keys."""

    name: str
    domain: str
    licence: str
    packages: list
    globs: list
    format: str
    max_mb: float
    exclude: list = field(default_factory=list)
    kind: str = "prose"
    main: list = field(default_factory=list)
    drop: str = ""
    split: str = ""
    split_tags: list = field(default_factory=list)
    join_chars: int = 0
    replace_raw: list = field(default_factory=list)
    replace: list = field(default_factory=list)
    strip_license: bool = False
    min_chars: int = 200
    max_chars: int = 100000
    min_letters: float = 0.45
    min_stop: float = 0.10
    quick_mb: float = 0
    optional: bool = False
    download_mb: float = 0
    expected_mb: float = 0
    expected_documents: int = 0
    expected_chars: list = field(default_factory=list)

    def cap_bytes(self, subset):
        """Size of this source in `subset` in bytes; 0: it has no part in it."""
        return int(1e6 * (self.quick_mb if subset == "quick" else self.max_mb))


@dataclass(frozen=True)
class Recipe:
    sources: list
    fingerprint: str  # SHA-256 of the file and of the rules version


def load(path):
    """Reads and checks a recipe.  Throws CorpusError with every problem found, one a line."""
    try:
        content = path.read_bytes()
        table = tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise CorpusError(f"[recipe] cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CorpusError(f"[recipe] {path}: {error}") from error
    problems = []
    if table.get("schema") != SCHEMA:
        problems.append(f"schema must be {SCHEMA!r}, got {table.get('schema')!r}")
    for key in sorted(set(table) - {"schema", "source"}):
        problems.append(f"unknown key '{key}'")
    sources = [read_source(entry, problems) for entry in table.get("source", [])]
    names = [source.name for source in sources if source]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"source '{name}' is there twice")
    if not names:
        problems.append("no [[source]]")
    if problems:
        raise CorpusError("\n".join(f"[recipe] {problem} ({path})" for problem in problems))
    fingerprint = hashlib.sha256(RULES.encode() + b"\0" + content).hexdigest()
    return Recipe(sources, fingerprint)


def read_source(entry, problems):
    """One record, or None after adding what is wrong with it to `problems`."""
    name = entry.get("name", "(no name)")
    fields = {item.name: item for item in dataclasses.fields(Source)}
    found = [f"source '{name}': unknown key '{key}'" for key in entry if key not in fields]
    for key, item in fields.items():
        required = (
            item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        )
        if required and key not in entry:
            found.append(f"source '{name}': '{key}' is missing")
    for key, choices in (
        ("domain", list(DOMAINS)),
        ("format", ["text", "html", "xml"]),
        ("kind", ["code", "prose"]),
    ):
        if key in entry and entry[key] not in choices:
            found.append(
                f"source '{name}': {key} must be one of {', '.join(choices)}, got {entry[key]!r}"
            )
    if not re.fullmatch(r"[\w+-]+(\.[\w+-]+)*", str(name)):
        found.append(f"source '{name}': a name has letters, digits and . + - _ only")
    patterns = [*entry.get("exclude", []), entry.get("drop", ""), entry.get("split", "")]
    pairs = [*entry.get("replace_raw", []), *entry.get("replace", [])]
    for pattern in patterns + [pair[0] for pair in pairs]:
        try:
            re.compile(pattern)
        except re.error as error:
            found.append(f"source '{name}': bad regex {pattern!r}: {error}")
    problems.extend(found)
    return None if found else Source(**entry)


def choose_sources(recipe, subset, names=None, with_optional=False):
    """Sources of a run in the order in which duplicates are judged: quick ones first, "*" last.

    Quick ones go first so that the quick corpus is a subset of the full one to the document.
    """
    known = {source.name for source in recipe.sources}
    unknown = [name for name in names or [] if name not in known]
    if unknown:
        raise CorpusError(
            f"[recipe] no source named {', '.join(unknown)}; there are: {', '.join(sorted(known))}"
        )
    chosen = [
        source
        for source in recipe.sources
        if source.cap_bytes(subset) > 0
        and (source.name in names if names else (with_optional or not source.optional))
    ]
    if not chosen:
        raise CorpusError(f"[recipe] none of the sources asked for is in the {subset} corpus")
    return sorted(
        chosen, key=lambda source: (ALL_PACKAGES in source.packages, source.quick_mb == 0)
    )
