"""Take the screenshots of this folder, from ``./run dashboard --example`` when it has analysed its runs.

Usage: ``python docs/dashboard/screenshots.py http://127.0.0.1:8080``, with the packages and the
Chromium of the checks.
"""

import shutil
import sys
from io import BytesIO
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, sync_playwright

SIZES = {"wide": {"width": 1440, "height": 900}, "narrow": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
COLOURS = 128
FOLDER = Path(__file__).parent / "pictures"


def addresses(page: Page) -> dict[str, str]:
    """Return the addresses of the pages by their names; an item with several traces stands for all."""
    listed = page.request.get("/triage", headers={"Accept": "application/json"}).json()["items"]
    item = max(listed, key=lambda each: each["traces"])
    commits = urlencode({"left": item["range"]["first_changed"], "right": item["range"]["last_good"]})
    return {
        "overview": "/",
        "triage": "/triage",
        "item": f"/triage/{item['id']}",
        "job": f"/jobs/new?item={item['id']}",
        "explore-item": f"/triage/{item['id']}/explore",
        "explore": "/explore?q=metric%3Dmrr&show=scale_by_ave",
        "compare": f"/compare?by=commits&{commits}&q=testbed%3D{item['testbed']}",
        "search": "/search?q=ip6base",
    }


def take(page: Page, name: str) -> None:
    """Save a picture of a page with few colours, which makes it a quarter as large."""
    page.wait_for_load_state("networkidle")
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


FOLDER.mkdir(exist_ok=True)
chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
with sync_playwright() as playwright, playwright.chromium.launch(executable_path=chromium) as browser:
    for (size, viewport), scheme in product(SIZES.items(), SCHEMES):
        context = browser.new_context(base_url=sys.argv[1], viewport=viewport, color_scheme=scheme)
        page = context.new_page()
        for name, address in addresses(page).items():
            page.goto(address)
            take(page, f"{name}-{size}-{scheme}")
        context.close()
