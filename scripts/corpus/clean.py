"""From raw pieces of a file to documents worth reading: clean() repairs the characters, joins, cuts
and takes off licence comments, keep() judges, drop_boilerplate() compares the pages of one
source, drop_seen() takes out what was there before.

    texts = [text for text in clean(source, pieces, suffix=".py") if keep(source, text)]
"""

import hashlib
import re
import unicodedata
from collections import Counter

# Characters

UNWANTED = re.compile(  # control, zero-width, direction, private use, replacement sign, pilcrow
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffd\ufffe\uffff\ud800-\udfff\ue000-\uf8ff\U000e0000-\U0010ffff\xb6]"
)
LINE_ENDS = re.compile("\r\n?|[\x85\u2028\u2029]")
SPACES = re.compile("[\xa0\u2007\u202f]")
TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)
TEXINFO = re.compile(  # "Next: Sets, Previous: Rules, Up: Top   [Contents][Index]"
    r"^(?:File: [^\n]*|[ \t]*)(?:Next|Prev(?:ious)?|Up): [^\n]*"
    r"(?:\bUp: |\[(?:Contents|Index)\])[^\n]*\n?",
    re.MULTILINE,
)
LONE_DASH = re.compile(r"^([ \t]*)-[ \t]*\n\s*(?=\S)", re.MULTILINE)
RULE = re.compile(r"([^\w\s]|_)\1{20,}")
EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,}\b")


def clean(source, pieces, suffix=""):
    """Rules 1 to 3 on the raw pieces of one file: replacements, characters and lines, join and cut,
    licence comments.

    `suffix` is that of the file (".py").  Lengths are those of cleaned text.
    """
    cleaned = []
    for text in pieces:
        for pattern, replacement in source.replace:
            text = re.sub(pattern, replacement, text)
        cleaned.append(normalise(text))
    cleaned = [text for text in cleaned if text]
    if source.join_chars:
        cleaned = join_short(cleaned, source.join_chars)
    documents = [part for text in cleaned for part in cut_long(text, source.max_chars)]
    return (
        [strip_license(text, suffix) for text in documents] if source.strip_license else documents
    )


def normalise(text):
    """Rule 2: NFC, LF, no invisible characters, at most one empty line, no page furniture, no
    e-mail addresses.
    """
    text = LINE_ENDS.sub("\n", text)
    if not text.isascii():
        text = SPACES.sub(" ", unicodedata.normalize("NFC", text))
    text = UNWANTED.sub("", text)
    text = TEXINFO.sub("", text)
    text = LONE_DASH.sub(r"\1- ", text)
    text = RULE.sub(lambda run: run.group(1) * 20, text)
    if "@" in text:
        text = EMAIL.sub("user@example.com", text)
    text = tidy(text)
    if not text.isascii():  # taking a character out can bring two together that compose
        text = unicodedata.normalize("NFC", text)
    return text


def tidy(text):
    """No trailing blanks, one empty line at most, none at the ends."""
    return re.sub(r"\n{3,}", "\n\n", TRAILING.sub("", text)).strip("\n")


def join_short(pieces, join_chars):
    """Joins neighbours until a document has `join_chars` characters; the last may stay shorter."""
    joined, current = [], ""
    for piece in pieces:
        current = f"{current}\n\n{piece}" if current else piece
        if len(current) >= join_chars:
            joined.append(current)
            current = ""
    return joined + [current] if current else joined


def cut_long(text, max_chars):
    """Pieces of at most `max_chars`, cut at the last empty line before it (else line, else
    anywhere).
    """
    pieces = []
    while len(text) > max_chars:
        at = (
            max(text.rfind("\n\n", 1, max_chars + 2), 0)
            or max(text.rfind("\n", 1, max_chars + 1), 0)
            or max_chars
        )
        pieces.append(text[:at].rstrip())
        text = text[at:].lstrip("\n")
    return [*pieces, text] if text else pieces


# Licence comments

HASH, SLASHES, DASHES, PERCENT, C, ML = "#", "//", "--", "%", r"/\*", r"\(\*"
COMMENTS = {  # file suffix -> what begins a comment
    **dict.fromkeys((".py", ".pl", ".pm", ".sh", ".r", ".R"), (HASH,)),
    ".rb": (HASH, "=begin"),
    **dict.fromkeys((".c", ".cc", ".cpp", ".h", ".hpp", ".go", ".js", ".ts"), (SLASHES, C)),
    **dict.fromkeys((".v", ".ml", ".mli"), (ML,)),
    ".sql": (DASHES, C),
    ".m": (PERCENT, HASH),
}
ANY_COMMENT = (
    r"#(?!\s*(?:include|define|if|ifn?def|endif|else|elif|undef|error|pragma)\b)",
    SLASHES,
    DASHES,
    PERCENT,
    C,
    ML,
)
CLOSING = {C: r"\*/", ML: r"\*\)", "=begin": r"^=end\b[^\n]*"}
SPEAKS_OF_LICENCE = re.compile(
    r"copyright|licen[cs]e|©|\(c\) *(?:19|20)\d\d|all rights reserved", re.IGNORECASE
)
LICENCE_START, LICENCE_WINDOW = 6000, 8000


def comment_pattern(begins):
    """Matches one block: a run of one-line comments, or one comment with an end of its own."""
    choices = []
    for begin in begins:
        end = CLOSING.get(begin)
        if end is None:
            choices.append(rf"(?:^[ \t]*{begin}[^\n]*(?:\n|\Z))+")
            continue
        if begin != "=begin":
            choices.append(rf"(?:^[ \t]*{begin}(?:(?!{end})[^\n])*{end}[ \t]*(?:\n|\Z))+")
        choices.append(rf"^[ \t]*{begin}.*?{end}[ \t]*\n?")
    return re.compile("|".join(choices), re.MULTILINE | re.DOTALL)


PATTERNS = {suffix: comment_pattern(begins) for suffix, begins in COMMENTS.items()}
ANY_PATTERN = comment_pattern(ANY_COMMENT)


def strip_license(text, suffix=""):
    """Rule 3: takes out every comment block that starts in the first 6000 characters and speaks of
    a licence.

    It is searched in a window of 8000 characters, since the pattern is quadratic in the length of a
    long comment.
    """
    window, rest = text[:LICENCE_WINDOW], text[LICENCE_WINDOW:]

    def judge(block):
        taken = block.start() < LICENCE_START and SPEAKS_OF_LICENCE.search(block.group())
        return "" if taken else block.group()

    return tidy(PATTERNS.get(suffix, ANY_PATTERN).sub(judge, window) + rest)


# What is kept

ENGLISH = frozenset(
    "the of and to a in is that for it as with be on this by are or an from not which can you"
    " if".split()
)
WORD = re.compile(r"[A-Za-z]+")
NOT_LETTERS = bytes(byte for byte in range(256) if not chr(byte).isalpha() or byte > 127)
NOT_DIGITS = bytes(byte for byte in range(256) if byte not in b"0123456789")
FREE_LETTERS = re.compile(  # Greek, letter-like and mathematical signs
    "[\xaa\xb5\xba\u02b0-\u02ff\u0370-\u03ff\u1f00-\u1fff\u2070-\u209f\u2100-\u214f\U0001d400-\U0001d7ff]"
)
MACHINE_MADE = re.compile(r"generated|do not edit", re.IGNORECASE)


def keep(source, text):
    """Rule 4: whether a cleaned document is long enough, English, and prose or code rather than
    data.
    """
    if len(text) < source.min_chars:
        return False
    foreign, free = other_letters(text)
    ascii_bytes = text.encode("utf-8")
    letters = len(ascii_bytes.translate(None, NOT_LETTERS)) + foreign + free
    if letters < source.min_letters * len(text) or foreign > 0.02 * letters:
        return False
    if source.kind == "code":
        return looks_like_code(text, len(ascii_bytes.translate(None, NOT_DIGITS)))
    found = WORD.findall(text.lower())
    return bool(found) and sum(word in ENGLISH for word in found) >= source.min_stop * len(found)


def other_letters(text):
    """Letters beyond a-z: (those of other languages, those of mathematics)."""
    if text.isascii():
        return 0, 0
    others = [sign for sign in re.findall(r"[^\x00-\x7f]", text) if sign.isalpha()]
    free = sum(1 for sign in others if FREE_LETTERS.match(sign))
    return len(others) - free, free


def looks_like_code(text, digits):
    lines = text.split("\n")
    longest = max(map(len, lines))
    return (
        longest <= 1500
        and len(text) <= 120 * len(lines)
        and digits <= 0.25 * len(text)
        and not MACHINE_MADE.search(text[:600])
    )


# Repeats


def drop_boilerplate(texts):
    """Rule 5: takes out lines that many pages of a source share; `texts` stay in order."""
    if len(texts) < 30:
        return texts
    pages_with = Counter()
    for text in texts:
        pages_with.update({line for line in map(str.strip, text.split("\n")) if len(line) >= 12})
    tenth, quarter = 0.10 * len(texts), 0.25 * len(texts)
    common = {
        line
        for line, pages in pages_with.items()
        if pages > (tenth if len(line) >= 20 else quarter)
    }
    if not common:
        return texts
    return [
        tidy("\n".join(line for line in text.split("\n") if line.strip() not in common))
        for text in texts
    ]


def duplicate_key(text):
    """Equal for texts with the same letters and digits, whatever their case, spaces and signs."""
    return hashlib.sha256(re.sub(r"[\W_]+", "", text.lower()).encode("utf-8")).digest()


def drop_seen(texts):
    """Rule 6 within one source, in file order: (text, key) of documents that are neither an exact
    repeat nor mostly (> 60 % of their lines of 30 and more characters) seen before.
    """
    kept, keys, seen = [], set(), set()
    for text in texts:
        key = duplicate_key(text)
        if key in keys:
            continue
        keys.add(key)
        lines = [line for line in map(str.strip, text.split("\n")) if len(line) >= 30]
        repeated = sum(line in seen for line in lines)
        seen.update(lines)
        if repeated <= 0.6 * len(lines):
            kept.append((text, key))
    return kept
