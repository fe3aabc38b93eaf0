"""HTML, DocBook and Mallard to plain text: paragraphs, headings, lists, tables and code stand
between empty lines, a list item begins with "- ", the cells of a row are joined by " | ", code
keeps its spaces, and navigation, forms, pictures and notes on authors and licences are left out.

    texts = html_to_texts(page, source)      # several when source.split_tags says so
"""

import html.entities
import re

CLASSES_DROPPED = re.compile(
    r"(?:nav|sidebar|toc|breadcrumb|menu).*|footer|related|headerlink|docnav|tagline"
)


class TextBuilder:
    """Collects lines of text; knows lines, empty lines between blocks, list items and document
    breaks.
    """

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
        "address article aside body caption center dd details div dt fieldset figcaption figure"
        " header hgroup hr legend main section summary tbody tfoot thead"
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

    def keeps_spaces(self, tag, element):
        return tag in self.pre

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
        "articleinfo author authorgroup bookinfo chapterinfo copyright credit date editor"
        " imagedata imageobject indexterm info keywordset legalnotice license licence"
        " othercredit primary pubdate releaseinfo remark revhistory revision sect1info sect2info"
        " sect3info sectioninfo secondary setinfo artheader"
    )
    line = words(
        "abstract answer appendix article book caption chapter desc entrytbl figure glossentry"
        " glossterm graphic indexdiv keyword mediaobject media member page part preface"
        " qandaentry question refentry screenshot sect1 sect2 sect3 sect4 sect5 section"
        " segmentedlist subtitle tbody term textobject tgroup tfoot thead titleabbrev"
        " varlistentry"
    )
    gap = words(
        "blockquote bridgehead caution example formalpara glossary glosslist important"
        " informalexample informaltable itemizedlist list literallayout note orderedlist p para"
        " procedure programlisting screen simpara simplelist steps synopsis table terms tip"
        " title variablelist warning tree"
    )
    lists = words(
        "glosslist itemizedlist list orderedlist procedure simplelist steps terms tree variablelist"
    )
    items = words("listitem item step")
    rows = words("row tr")
    cells = words("entry td th")
    pre = words("programlisting screen literallayout synopsis")
    breaks = words("sbr")
    inline = words("p title td link em gui input output sys span para term desc")
    tall = tuple(
        "{*}" + tag
        for tag in words(
            "table informaltable programlisting screen itemizedlist orderedlist list steps"
        )
    )

    def dropped(self, tag, element):
        return tag in self.drop or bool(self.pattern and self.pattern.search(tag))

    def keeps_spaces(self, tag, element):
        """Mallard's `code` is a block except within a line of text."""
        if tag == "code":
            return tag_name(element.getparent()) not in self.inline
        return tag in self.pre


def html_to_texts(text, source):
    """Texts of one HTML page: one, or several when `split_tags` says so."""
    from lxml import etree

    text = re.sub(r"(?s)\A\s*<\?xml.*?\?>", "", text)
    text = re.sub(
        r"<(script|style|title|textarea|iframe|a|div|span|p|td|th|li|em|i|b)\b([^<>]*)/>",
        r"<\1\2></\1>",
        text,
        flags=re.I,
    )
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
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
    """Texts of one DocBook or Mallard file.  An unknown `&name;` becomes its name."""
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
    """The documents of a tree, in document order; no recursion, since broken pages nest deeply."""
    walker = Walker(rules)
    stack = [(root, False)]
    while stack:
        element, closing = stack.pop()
        tag = tag_name(element)
        if closing:
            walker.close(element, tag)
        elif (
            tag
            and (element is root or not rules.dropped(tag, element))
            and walker.open(element, tag)
        ):
            stack.append((element, True))
            stack.extend((child, False) for child in element.iterchildren(reversed=True))
            continue
        if element is not root:
            walker.out.text(element.tail)
    return walker.out.result()


class Walker:
    """What opening and closing an element does to the text.  A table row without lists, paragraphs
    of code or other tables in it is "flat": it becomes one line with its cells joined by " | ".
    """

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
        elif rules.keeps_spaces(tag, element):
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
        """A list within a list item only ends the line; other large blocks get empty lines."""
        rules = self.rules
        if tag in rules.gap and not (self.lists and tag in rules.lists):
            self.out.gap()
        elif (
            tag in rules.gap
            or tag in rules.line
            or tag in rules.cells
            or tag in rules.rows
            or tag in rules.breaks
        ):
            self.out.end_line()


def tag_name(element):
    return (
        ""
        if element is None or not isinstance(element.tag, str)
        else element.tag.rsplit("}", 1)[-1].lower()
    )


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
