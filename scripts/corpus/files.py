"""From files to pieces of raw text: finds the files of a source, decodes them and splits them.
Nothing here depends on directory or hash order.

    for path in find_files(folder, source.globs, source.exclude, "git-doc"):
        pieces = pieces_of_file(source, path)
"""

import gzip
import os
import re
import zlib
from pathlib import Path

from markup import html_to_texts, xml_to_texts


def find_files(root, globs, exclude, package):
    """Files below `root` that match, sorted by path; symbolic links are not followed, of folders
    neither.
    """
    wanted = re.compile("|".join(f"(?:{glob_to_regex(glob)})" for glob in globs))
    unwanted = [re.compile(pattern) for pattern in exclude]
    found = []
    for folder, _, names in os.walk(root, followlinks=False):
        for name in names:
            full = os.path.join(folder, name)
            path = os.path.relpath(full, root)
            if not wanted.fullmatch(path) or os.path.islink(full) or not os.path.isfile(full):
                continue
            if not any(pattern.search(f"{package}/{path}") for pattern in unwanted):
                found.append(path)
    return [Path(root, path) for path in sorted(found)]


def glob_to_regex(glob):
    """'a/**/*.py' -> a regex; ** is any number of folders, * and ? stay within a name."""
    pieces = re.split(r"(\*\*/|\*|\?)", glob)
    meaning = {"**/": r"(?:[^/]+/)*", "*": r"[^/]*", "?": r"[^/]"}
    return "".join(meaning.get(piece, re.escape(piece)) for piece in pieces)


def read_text(path):
    """The text of a file, unpacked and decoded, with LF line ends; None when it is binary or
    damaged.
    """
    try:
        data = path.read_bytes()
        if path.suffix in (".gz", ".dz"):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return None
    if b"\0" in data[:4096]:
        return None
    text = decode(data).removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def decode(data):
    """UTF-8, else the charset the file declares, else Latin-1."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    declared = re.search(rb"(?:charset|encoding|coding)\s*[:=]\s*[\"']?([\w.:-]+)", data[:2048])
    if declared:
        try:
            return data.decode(declared.group(1).decode("ascii"))
        except (LookupError, UnicodeDecodeError):
            pass
    return data.decode("latin-1")


# Pieces


def pieces_of_file(source, path):
    """Raw pieces of one file, in file order: one, or several with `split` or `split_tags`."""
    text = read_text(path)
    if text is None:
        return []
    for pattern, replacement in source.replace_raw:
        text = re.sub(pattern, replacement, text)
    if source.format == "text":
        pieces = [text]
    else:
        pieces = (
            html_to_texts(text, source) if source.format == "html" else xml_to_texts(text, source)
        )
    if source.split:
        pieces = [part for piece in pieces for part in re.split(source.split, piece)]
    return [piece for piece in pieces if piece.strip()]
