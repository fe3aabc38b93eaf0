#!/usr/bin/env python3
"""Writes Vega, Vega-Lite and Vega-Embed as one script, out of the vl-convert-python wheel (no network).

    .venv/bin/python scripts/vega_bundle.py build/release/generated/report/vega.js

CMake calls it once per build folder and compiles the outcome into smelt_report.
"""
import os
import re
import sys


def bundle():
    try:
        import vl_convert
    except ImportError:
        sys.exit(f"{sys.executable} has no vl_convert; install it with: pip install vl-convert-python")
    text = vl_convert.javascript_bundle()
    for name in ("vega", "vegaLite", "vegaEmbed"):
        if f"window.{name}=" not in text:
            sys.exit(f"the bundle of vl_convert {vl_convert.__version__} does not define window.{name}")
    # Inlined in a page, these would end or comment out the script element.
    text = re.sub(r"</(script)", r"<\\/\1", text, flags=re.IGNORECASE).replace("<!--", r"<\!--")
    return "(function () {\n" + text + "\n})();\n"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: vega_bundle.py OUT.js")
    out = sys.argv[1]
    text = bundle()
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    aside = f"{out}.partial-{os.getpid()}"
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(aside, out)


if __name__ == "__main__":
    main()
