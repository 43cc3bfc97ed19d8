"""A headless Chromium, driven over its own pipe (DevTools protocol): just what tests of pages need."""

import base64
import fcntl
import json
import os
import select
import shutil
import struct
import subprocess
import time

import numpy as np

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
    ),
    *("--disable-extensions", "--disable-background-networking", "--disable-sync", "--force-color-profile=srgb"),
    *("--force-device-scale-factor=1", "--remote-debugging-pipe"),
]
# Decodes a PNG and gives its pixels, four bytes each.
DECODE = """(async () => {
    const bytes = Uint8Array.from(atob(%s), (letter) => letter.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
    canvas.drawImage(picture, 0, 0);
    const pixels = canvas.getImageData(0, 0, picture.width, picture.height).data;
    let text = "";
    for (let at = 0; at < pixels.length; at += 32768) text += String.fromCharCode(...pixels.subarray(at, at + 32768));
    return btoa(text);
})()"""


def find_browser():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser with one page. `errors` are the console's and uncaught exceptions, `requests` what it loaded."""

    def __init__(self, folder):
        command_read, self.command = os.pipe()
        self.answers, answer_write = os.pipe()
        descriptors = command_read, answer_write

        def place():  # the browser reads commands from descriptor 3 and writes to 4
            ends = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10) for descriptor in descriptors]
            for end, wanted in zip(ends, (3, 4), strict=True):
                os.dup2(end, wanted)

        command = [find_browser(), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, preexec_fn=place, close_fds=False, **quiet)
        for descriptor in descriptors:
            os.close(descriptor)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.errors = []
        self.requests = []
        self.loaded = 0
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        blank = self.send("Target.createTarget", url="about:blank", background=True)["targetId"]
        self.decoder = self.send("Target.attachToTarget", targetId=blank, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, *, to=None, **params):
        """Send a command and wait for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        session = to or self.session
        if session is not None and not method.startswith("Target."):
            message["sessionId"] = session
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.command, rest) :]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.note(answer)

    def receive(self, seconds=60):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str([arg.get("value") for arg in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded += 1

    def open(self, path, anchor="", *, dark=False, width=1280, height=900):
        """Open a file and wait until it is drawn."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url="about:blank")
        self.errors.clear()
        self.requests.clear()
        before = self.loaded
        self.send("Page.navigate", url=f"file://{path}{anchor}")
        while self.loaded == before:
            self.note(self.receive())
        self.settle()

    def settle(self):
        """Wait for two frames, so that what was asked for is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def evaluate(self, expression, to=None):
        answer = self.send("Runtime.evaluate", to=to, expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def go(self, anchor):
        self.evaluate(f"location.hash = {json.dumps(anchor)}")
        self.settle()

    def click(self, selector):
        """Click into the middle of an element, as a mouse does."""
        place = self.evaluate(
            f"""(() => {{ const found = document.querySelector({json.dumps(selector)});
            found.scrollIntoView({{block: "center"}}); const box = found.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + Math.min(box.height / 2, 12)]; }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            at = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, **at)
        self.settle()

    def press(self, key, text=None):
        codes = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowLeft": 37}
        more = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        if key == "Enter":
            text = "\r"
        if text is not None:
            more["text"] = text
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def screenshot(self, file=None):
        """Return what is seen, as an array of height x width x 3; also as a file if wanted."""
        data = base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        if file is not None:
            with open(file, "wb") as out:
                out.write(data)
        # A blank page decodes it: the one under test allows nothing of the kind.
        pixels = base64.b64decode(self.evaluate(DECODE % json.dumps(base64.b64encode(data).decode()), self.decoder))
        width, height = struct.unpack(">II", data[16:24])
        return np.frombuffer(pixels, np.uint8).reshape(height, width, 4)[:, :, :3]

    def close(self):
        os.close(self.command)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)
