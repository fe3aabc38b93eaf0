#!/usr/bin/env python3
"""Opens a report in headless Chromium and looks at it: every plot drawn, no console error, no request.

    tests/report/check_page.py runs/quick/report.html [--shots FOLDER]

With --shots it leaves desktop, phone and dark screenshots and a PDF.  Exit 0 fine, 1 a fault, 77 no Chromium.
Speaks the DevTools protocol over a pipe; needs nothing but Python.
"""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"]


class Browser:
    def __init__(self, program, profile):
        to_child, self.write_end = os.pipe()
        self.read_end, from_child = os.pipe()

        def set_ends():  # the protocol's pipe is descriptors 3 and 4
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen([program, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
                                        close_fds=False, preexec_fn=set_ends, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.id, self.session, self.events = b"", 0, None, []

    def _message(self):
        while b"\0" not in self.buffer:
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                sys.exit("the browser closed its pipe")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.id += 1
        message = {"id": self.id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.id:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(20)


def wait_until_drawn(browser):
    end = time.time() + 120
    while time.time() < end:
        if browser.evaluate("document.documentElement.dataset.drawn") == "true":
            return True
        time.sleep(0.3)
    return False


def faults_of(browser, page, width):
    faults = []
    for event in browser.events:
        params = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if url != page and not url.startswith(("data:", "blob:")):
                faults.append(f"a request left the page: {url[:200]}")
        elif event["method"] == "Runtime.exceptionThrown":
            faults.append("exception: " + json.dumps(params["exceptionDetails"])[:400])
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            faults.append(f"console {params['type']}: " + json.dumps([a.get("value", a.get("description")) for a in params["args"]])[:400])
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            faults.append("log: " + params["entry"]["text"][:300])
    browser.events.clear()
    plots = browser.evaluate("document.querySelectorAll('[data-spec]').length")
    drawn = browser.evaluate("document.querySelectorAll('[data-spec] svg').length")
    if plots != drawn:
        faults.append(f"{drawn} of {plots} plots drawn")
    overflow = browser.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if overflow > 0:
        faults.append(f"at {width} px the page is {overflow} px too wide")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page")
    parser.add_argument("--shots")
    options = parser.parse_args()
    program = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not program:
        print("skipped: no Chromium here")
        return 77
    if not os.path.isfile(options.page):
        sys.exit(f"{options.page}: no such page")
    page = pathlib.Path(options.page).resolve().as_uri()
    shots = pathlib.Path(options.shots) if options.shots else None
    faults = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.call(f"{domain}.enable")
        for name, width, dark in (("desktop", 1280, False), ("phone", 390, False), ("dark", 1280, True)):
            browser.call("Emulation.setEmulatedMedia",
                         features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
            browser.events.clear()
            browser.call("Page.navigate", url=page)
            if not wait_until_drawn(browser):
                faults.append(f"{name}: the plots were not drawn within two minutes")
            faults += [f"{name}: {fault}" for fault in faults_of(browser, page, width)]
            if shots:
                shots.mkdir(parents=True, exist_ok=True)
                shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True,
                                    clip={"x": 0, "y": 0, "width": width, "scale": 1,
                                          "height": min(browser.evaluate("document.documentElement.scrollHeight"), 14000)})
                (shots / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
        if shots:
            pdf = browser.call("Page.printToPDF", printBackground=False)
            (shots / "print.pdf").write_bytes(base64.b64decode(pdf["data"]))
        browser.close()
    for fault in faults:
        print(fault)
    if not faults:
        print("fine: every plot drawn, no console message, no request")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
