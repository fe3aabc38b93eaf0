"""From files to raw documents: finds the files of a source, decodes them, turns HTML and XML into plain text, and
splits and joins.  Nothing here depends on directory or hash order.

    for document in documents_of_file(source, path):
        ...
"""

import gzip
import html.entities
import os
import re
import zlib
from pathlib import Path

CLASSES_DROPPED = re.compile(r"(?:nav|sidebar|toc|breadcrumb|menu).*|footer|related|headerlink|docnav|tagline")


# Files


def find_files(root, globs, exclude, package):
    """Files below `root` that match, sorted by path; symbolic links are not followed, of folders neither."""
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
    """The text of a file, unpacked and decoded, with LF line ends; None when it is binary or damaged."""
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


# Documents


def documents_of_file(source, path):
    """Raw documents of one file, in file order."""
    text = read_text(path)
    if text is None:
        return []
    for pattern, replacement in source.replace_raw:
        text = re.sub(pattern, replacement, text)
    if source.format == "text":
        pieces = [text]
    else:
        pieces = html_to_texts(text, source) if source.format == "html" else xml_to_texts(text, source)
    if source.split:
        pieces = [part for piece in pieces for part in re.split(source.split, piece)]
    pieces = [piece for piece in pieces if piece.strip()]
    if source.join_chars:
        pieces = join_short(pieces, source.join_chars)
    return [part for piece in pieces for part in cut_long(piece, source.max_chars)]


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
    """Pieces of at most `max_chars`, cut at the last empty line before it (else line, else anywhere)."""
    pieces = []
    while len(text) > max_chars:
        at = text.rfind("\n\n", 1, max_chars)
        if at < 0:
            at = text.rfind("\n", 1, max_chars)
        if at < 0:
            at = max_chars
        pieces.append(text[:at])
        text = text[at:]
    return pieces + [text]


# Markup


class TextBuilder:
    """Collects lines of text; knows lines, empty lines between blocks, list items and document breaks."""

    ITEM = "- "

    def __init__(self):
        self.documents = [[]]
        self.inline = []

    def text(self, text):
        if text:
            self.inline.append(text)

    def end_line(self):
        """Ends the line, unless it only holds the sign of a list item, which waits for its text."""
        if not self.inline:
            return
        line = " ".join("".join(self.inline).split())
        if line == "-" and self.inline[0] == self.ITEM:
            self.inline = [self.ITEM]
            return
        self.inline = []
        if line:
            self.documents[-1].append(line)

    def gap(self):
        self.end_line()
        lines = self.documents[-1]
        if lines and lines[-1]:
            lines.append("")

    def begin_item(self):
        self.end_line()
        self.inline = [self.ITEM]

    def end_item(self):
        self.end_line()
        self.inline = []

    def cell(self):
        if "".join(self.inline).strip():
            self.inline.append(" | ")

    def preformatted(self, text):
        self.gap()
        self.inline = []
        self.documents[-1].extend(text.strip("\n").split("\n"))
        self.gap()

    def new_document(self):
        self.end_line()
        self.documents.append([])

    def result(self):
        self.end_line()
        return ["\n".join(lines) for lines in self.documents]


def words(names):
    return frozenset(names.split())


class HtmlRules:
    drop = words("head style script nav footer form button iframe math svg noscript template")
    line = words(
        "address article aside body caption center dd details div dt fieldset figcaption figure header hgroup hr"
        " legend main section summary tbody tfoot thead"
    )
    gap = words("blockquote dl h1 h2 h3 h4 h5 h6 ol p pre table ul")
    lists = words("dl ol ul")
    items = words("li")
    rows = words("tr")
    cells = words("td th")
    pre = words("pre listing xmp")
    breaks = words("br")
    tall = tuple("{*}" + tag for tag in words("table pre ul ol dl h1 h2 h3 h4 h5 h6 blockquote"))

    def __init__(self, source):
        self.split = frozenset(source.split_tags)
        self.pattern = re.compile(source.drop, re.IGNORECASE) if source.drop else None

    def dropped(self, tag, element):
        if tag in self.drop:
            return True
        names = element.get("class") or ""
        if names and any(CLASSES_DROPPED.fullmatch(name) for name in names.lower().split()):
            return True
        if not self.pattern:
            return False
        return bool(self.pattern.search(f"{tag} {names} {element.get('id') or ''}"))


class XmlRules(HtmlRules):
    drop = words(
        "articleinfo author authorgroup bookinfo chapterinfo copyright credit date editor imagedata"
        " imageobject indexterm info keywordset legalnotice license licence othercredit primary pubdate releaseinfo"
        " remark revhistory revision sect1info sect2info sect3info sectioninfo secondary setinfo artheader"
    )
    line = words(
        "abstract answer appendix article book caption chapter desc entrytbl figure glossentry glossterm graphic"
        " indexdiv keyword mediaobject media member page part preface qandaentry question refentry"
        " screenshot sect1 sect2 sect3 sect4 sect5 section segmentedlist subtitle tbody term textobject"
        " tgroup tfoot thead titleabbrev varlistentry"
    )
    gap = words(
        "blockquote bridgehead caution example formalpara glossary glosslist important informalexample informaltable"
        " itemizedlist list literallayout note orderedlist p para procedure programlisting screen simpara"
        " simplelist steps synopsis table terms tip title variablelist warning tree"
    )
    lists = words("glosslist itemizedlist list orderedlist procedure simplelist steps terms tree variablelist")
    items = words("listitem item step")
    rows = words("row tr")
    cells = words("entry td th")
    pre = words("programlisting screen literallayout synopsis")
    breaks = words("sbr")
    tall = tuple("{*}" + tag for tag in words("table informaltable programlisting screen itemizedlist orderedlist list steps"))

    def dropped(self, tag, element):
        return tag in self.drop or bool(self.pattern and self.pattern.search(tag))


def html_to_texts(text, source):
    """Texts of one HTML page: one, or several when `split_tags` says so."""
    from lxml import etree

    text = re.sub(r"(?s)\A\s*<\?xml.*?\?>", "", text)
    text = re.sub(
        r"<(script|style|title|textarea|iframe|a|div|span|p|td|th|li|em|i|b)\b([^<>]*)/>", r"<\1\2></\1>", text, flags=re.I
    )
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    root = parse(text, parser)
    if root is None:
        return []
    start = find_main(root, source.main)
    if start is None:
        start = root.find("body")
    return walk(start if start is not None else root, HtmlRules(source))


def find_main(root, selectors):
    """The first element of the first selector that is found, or None."""
    for selector in selectors:
        if selector.startswith("#"):
            test = "@id = $value"
        elif selector.startswith("."):
            test = "contains(concat(' ', normalize-space(@class), ' '), concat(' ', $value, ' '))"
        elif selector.startswith("role="):
            test = "@role = $value"
        else:
            test = "local-name() = $value"
        value = selector.removeprefix("role=").lstrip("#.")
        found = root.xpath(f"(//*[{test}])[1]", value=value)
        if found:
            return found[0]
    return None


def xml_to_texts(text, source):
    """Texts of one DocBook or Mallard file.  The DOCTYPE goes; an unknown `&name;` becomes its name."""
    from lxml import etree

    text = re.sub(r"(?s)\A\s*<\?xml.*?\?>", "", text)
    text = re.sub(r"(?s)<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", "", text, count=1)
    text = re.sub(r"&([A-Za-z_][\w.-]*);", entity, text)
    parser = etree.XMLParser(
        encoding="utf-8",
        recover=True,
        remove_comments=True,
        remove_pis=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=True,
    )
    root = parse(text, parser)
    return [] if root is None else walk(root, XmlRules(source))


def entity(match):
    name = match.group(1)
    if name in ("amp", "lt", "gt", "quot", "apos"):
        return match.group(0)
    return html.entities.html5.get(name + ";", name)


def parse(text, parser):
    """The root element, or None for a page without any."""
    from lxml import etree

    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text)
    if not text.strip():
        return None
    try:
        return etree.fromstring(text.encode("utf-8", "ignore"), parser)
    except etree.LxmlError:
        return None


def walk(root, rules):
    """The documents of a tree, read in document order without recursion (broken pages nest deeply)."""
    walker = Walker(rules)
    stack = [(root, False)]
    while stack:
        element, closing = stack.pop()
        tag = tag_name(element)
        if closing:
            walker.close(element, tag)
        elif tag and (element is root or not rules.dropped(tag, element)) and walker.open(element, tag):
            stack.append((element, True))
            stack.extend((child, False) for child in element.iterchildren(reversed=True))
            continue
        if element is not root:
            walker.out.text(element.tail)
    return walker.out.result()


class Walker:
    """What opening and closing an element does to the text.  A table row without lists, paragraphs of code or other
    tables in it is "flat": it becomes one line with its cells joined by " | "."""

    def __init__(self, rules):
        self.rules = rules
        self.out = TextBuilder()
        self.flat = None  # the open flat row
        self.lists = 0  # open list items

    def open(self, element, tag):
        """Returns whether the children are to be read."""
        rules, out = self.rules, self.out
        if tag in rules.split and self.flat is None:
            out.new_document()
        if self.flat is not None:
            if tag in rules.cells:
                out.cell()
            elif tag in rules.gap or tag in rules.line or tag in rules.breaks:
                out.text(" ")
        elif tag in rules.pre:
            out.preformatted(raw_text(element, rules))
            return False
        elif tag in rules.rows:
            out.end_line()
            if next(element.iterdescendants(*rules.tall), None) is None:
                self.flat = element
        elif tag in rules.items:
            self.lists += 1
            if tag_name(element.getparent()) == "varlistentry":
                out.end_line()
            else:
                out.begin_item()
        else:
            self.block(tag)
        out.text(element.text)
        return True

    def close(self, element, tag):
        if self.flat is element:
            self.flat = None
            self.out.end_line()
        elif self.flat is not None:
            if tag in self.rules.gap or tag in self.rules.line:
                self.out.text(" ")
        elif tag in self.rules.items:
            self.lists -= 1
            self.out.end_item()
        elif tag not in self.rules.breaks:
            self.block(tag)

    def block(self, tag):
        """Lists within a list item end the line only; other large blocks stand between empty lines."""
        rules = self.rules
        if tag in rules.gap and not (self.lists and tag in rules.lists):
            self.out.gap()
        elif tag in rules.gap or tag in rules.line or tag in rules.cells or tag in rules.rows or tag in rules.breaks:
            self.out.end_line()


def tag_name(element):
    return "" if element is None or not isinstance(element.tag, str) else element.tag.rsplit("}", 1)[-1].lower()


def raw_text(element, rules):
    """Text of a `pre` element with its spaces."""
    parts = []
    stack = [(element, False)]
    while stack:
        node, closing = stack.pop()
        if not closing:
            tag = tag_name(node)
            if tag and (node is element or not rules.dropped(tag, node)):
                if tag in rules.breaks:
                    parts.append("\n")
                parts.append(node.text or "")
                stack.append((node, True))
                stack.extend((child, False) for child in node.iterchildren(reversed=True))
                continue
        if node is not element:
            parts.append(node.tail or "")
    return "".join(parts)
