"""Finding, decoding and splitting files; HTML, DocBook and Mallard to text."""

import gzip
import tempfile
import unittest
from pathlib import Path

from support import make_source

from files import decode, find_files, glob_to_regex, pieces_of_file, read_text

try:
    import lxml  # noqa: F401

    from markup import html_to_texts, xml_to_texts
except ImportError:
    lxml = None


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)

    def write(self, path, data=b"x"):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def found(self, globs, exclude=()):
        files = find_files(self.root, globs, list(exclude), "pkg")
        return [str(path.relative_to(self.root)) for path in files]

    def test_globs(self):
        for path in ("usr/b.py", "usr/a/c.py", "usr/a/d/e.py", "usr/a.txt", "opt/z.py"):
            self.write(path)
        self.assertEqual(self.found(["usr/**/*.py"]), ["usr/a/c.py", "usr/a/d/e.py", "usr/b.py"])
        self.assertEqual(self.found(["usr/*.py", "usr/b.*"]), ["usr/b.py"])
        self.assertEqual(self.found(["**/*.py"], ["pkg/usr", "z"]), [])
        self.assertNotRegex("usr/axpy", glob_to_regex("usr/a.py"))

    def test_links_are_not_followed(self):
        self.write("real/a.py")
        (self.root / "link.py").symlink_to("real/a.py")
        (self.root / "folder").symlink_to("real")
        self.assertEqual(self.found(["**/*.py"]), ["real/a.py"])

    def test_decoding(self):
        self.assertEqual(decode("\u00e9".encode()), "\u00e9")
        self.assertEqual(decode(b'<meta charset="koi8-r">\xc1'), '<meta charset="koi8-r">\u0430')
        self.assertEqual(decode(b"charset=nonsense \xe9"), "charset=nonsense \u00e9")
        self.assertEqual(decode(b"\xe9"), "\u00e9")

    def test_reading(self):
        self.assertEqual(read_text(self.write("a.gz", gzip.compress(b"hi\r\nyou"))), "hi\nyou")
        self.assertEqual(read_text(self.write("a.dz", gzip.compress(b"hi"))), "hi")
        self.assertIsNone(read_text(self.write("bad.gz", b"no gzip")))
        self.assertIsNone(read_text(self.write("cut.gz", gzip.compress(b"hi" * 999)[:20])))
        self.assertIsNone(read_text(self.write("binary", b"a\0b")))
        self.assertEqual(read_text(self.write("bom", b"\xef\xbb\xbfhi")), "hi")

    def test_split(self):
        path = self.write("dict", b"one\n  a\ntwo\n  b\n\n\n")
        source = make_source(split=r"\n(?=\S)", replace_raw=[["b", "c"]])
        self.assertEqual(pieces_of_file(source, path), ["one\n  a", "two\n  c\n\n\n"])


@unittest.skipUnless(lxml, "needs lxml")
class Html(unittest.TestCase):
    def check(self, html, expected, **fields):
        texts = html_to_texts(html, make_source(format="html", **fields))
        self.assertEqual([text.strip("\n") for text in texts], expected)

    def test_blocks(self):
        self.check(
            "<html><head><title>T</title></head><body><h1>Head</h1><p>a\n <b>b</b>&amp;c<br>d</p>"
            "<div>e</div><div>f</div></body></html>",
            ["Head\n\na b&c\nd\n\ne\nf"],
        )

    def test_lists(self):
        self.check(
            "<p>x</p><ul><li>one</li><li><p>two</p></li><li>three<ul><li>sub</li></ul></li></ul>",
            ["x\n\n- one\n\n- two\n\n- three\n- sub"],
        )

    def test_table(self):
        self.check(
            "<table><tr><th>a<th>b</tr><tr><td><p>c</p></td><td>d<br>e</td></tr></table>",
            ["a | b\nc | d e"],
        )
        self.check("<table><tr><td><pre>x\n y</pre></td><td>z</td></tr></table>", ["x\n y\n\nz"])

    def test_pre_keeps_spaces(self):
        self.check("<p>a</p><pre>\nif <b>x</b>:\n    y\n</pre><p>b", ["a\n\nif x:\n    y\n\nb"])

    def test_dropped(self):
        self.check(
            "<nav>n</nav><div class='NavHeader'>n</div><div class='big sidebar-left'>n</div>"
            "<style>s</style><script>s</script><form>f</form><footer>f</footer><p>a"
            "<a class=headerlink>#</a> \\(x^2\\)<math><mi>x</mi></math></p><p id=x9>q</p><!-- -->",
            ["a \\(x^2\\)"],
            drop="x\\d",
        )

    def test_main(self):
        html = "<p>before</p><div role=main class='a body'><p>in</p></div><p>after</p>"
        for selector in ("role=main", ".body", "div"):
            self.check(html, ["in"], main=["#none", selector])
        self.check(html, ["before\n\nin\n\nafter"], main=["#none"])
        self.check("<div id=m>in</div>out", ["in"], main=["#m"])

    def test_split_tags(self):
        self.check("<p>a</p><h2>B</h2><p>b</p><h2>C</h2>", ["a", "B\n\nb", "C"], split_tags=["h2"])

    def test_broken_pages(self):
        self.check("", [])
        self.check("<p>a<div>b<p>c", ["a\n\nb\n\nc"])
        self.check(
            "<?xml version='1.0' encoding='x'?><html><body><a id='q'/>t</body></html>", ["t"]
        )
        self.check("<div>" * 1500 + "deep", ["deep"])


@unittest.skipUnless(lxml, "needs lxml")
class Xml(unittest.TestCase):
    def check(self, xml, expected, **fields):
        texts = xml_to_texts(xml, make_source(format="xml", **fields))
        self.assertEqual([text.strip("\n") for text in texts if text.strip()], expected)

    def test_docbook(self):
        self.check(
            '<?xml version="1.0"?><!DOCTYPE book [<!ENTITY a "b"> ]><book><bookinfo><date>1</date>'
            "</bookinfo><sect1><title>One &app; &mdash; &lt;</title><para>p <filename>f</filename>"
            "</para><itemizedlist><listitem><para>i</para></listitem></itemizedlist></sect1>"
            "<sect1><title>Two</title><screen>a\n  b</screen></sect1></book>",
            ["One app \u2014 <\n\np f\n\n- i", "Two\n\na\n  b"],
            split_tags=["sect1"],
        )

    def test_mallard(self):
        self.check(
            '<page xmlns="http://projectmallard.org/1.0/"><info><desc>d</desc></info><title>T</title>'
            "<p>run <code>x</code></p><code>a\n b</code><steps><item>s</item></steps></page>",
            ["T\n\nrun x\n\na\n b\n\n- s"],
        )


if __name__ == "__main__":
    unittest.main()
