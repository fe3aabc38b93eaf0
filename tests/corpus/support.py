"""What the tests of scripts/corpus share: the modules on the path and a way to make a Source."""

import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "corpus"
sys.path.insert(0, str(SCRIPTS))

from recipe import Source  # noqa: E402


def make_source(**fields):
    """A source that keeps nearly everything, unless `fields` say otherwise."""
    defaults = {
        "name": "tiny",
        "domain": "Web",
        "licence": "none",
        "packages": ["tiny"],
        "globs": ["**/*"],
        "format": "text",
        "max_mb": 1,
        "min_chars": 1,
        "min_stop": 0,
    }
    return Source(**{**defaults, **fields})
