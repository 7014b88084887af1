"""A report opened in Chromium, with all that it asked for and complained about, and what is asked of every page."""

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

# Relative luminance and contrast: WCAG 2.2, 1.4.3. Colours are read through a canvas, which turns every notation into RGB.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const background = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reduceRight((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = colour.slice(0, 3).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.closest("script, style, noscript, .modebar, .skip, thead")) continue;
    const inside = element.closest("svg");
    const style = getComputedStyle(element);
    const below = background(element);
    const colour = over(rgba(inside ? style.fill : style.color), below);
    const [high, low] = [luminance(colour), luminance(below)].sort((a, b) => b - a);
    found.push([(high + 0.05) / (low + 0.05), text.slice(0, 40), Boolean(inside)]);
  }
  return found;
}"""

# Right edges of everything that does not scroll inside a container of its own.
RIGHTMOST = """() => Math.max(...[...document.querySelectorAll("main *, header *")]
  .filter((element) => !element.closest(".scroll, svg, .skip, thead")).map((element) => element.getBoundingClientRect().right))"""

OVERLAPS = """() => [...document.querySelectorAll(".plot")].flatMap((plot) => {
  const texts = [...plot.querySelectorAll(".annotation-text, .legendtext")];
  const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const meet = (x, y) => x.left < y.right && y.left < x.right && x.top < y.bottom - 1 && y.top < x.bottom - 1;
  return boxes.flatMap(([a, x], i) => boxes.slice(i + 1).filter(([, y]) => meet(x, y)).map(([b]) => [plot.dataset.figure, a, b]));
})"""

FILLS = "() => [...document.querySelectorAll('.plot .bars .point path')].map((path) => getComputedStyle(path).fill)"
TICK = "() => getComputedStyle(document.querySelector('.plot .xtick text')).fill"
OPEN_ALL = "() => document.querySelectorAll('details').forEach((details) => { details.open = true; })"
CLOSE_ALL = "() => document.querySelectorAll('details').forEach((details) => { details.open = false; })"

SCHEMES, WIDTHS = ("light", "dark"), (1280, 390)


def executable():
    """The first browser on the path; its absence is a failure, because then nobody would have seen the report."""
    path = next((found for found in map(shutil.which, NAMES) if found), None)
    if path is None:
        pytest.fail(
            f"no Chromium found ({', '.join(NAMES)}): install one, on Debian with 'apt-get install chromium'", pytrace=False
        )
    return path


class Opened:
    """A page with everything that it asked for and complained about."""

    def __init__(self, browser, report, *, scheme="light", width=1280, wait=True, **settings):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **settings)
        self.page = self.context.new_page()
        self.requests, self.errors = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.errors.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(report.as_uri())
        if wait:
            self.page.wait_for_selector(f"html[data-drawn={scheme}]")

    def wait_until(self, script):
        """Poll: playwright's own wait_for_function evaluates a string, which the page's policy forbids."""
        for _ in range(200):
            if self.page.evaluate(script):
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"never true: {script}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()
