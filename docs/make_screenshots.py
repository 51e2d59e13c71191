"""Photograph a report for docs/report.md: ``python docs/make_screenshots.py``. Needs Chromium; half a minute.

The report is the one of examples/tabular_report.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
EXAMPLE = Path(__file__).parents[1] / "examples" / "tabular_report.py"
# The page on a desk, and next to it 360 pixels wide as on a phone.
FRAMES = """<!DOCTYPE html><body style="margin:0;display:flex;gap:24px;background:#8a9199;padding:24px">
<iframe src="report.html" style="border:0;width:1000px;height:1250px;background:#fff"></iframe>
<iframe src="report.html" style="border:0;width:360px;height:1250px;background:#fff"></iframe></body>"""


def main(out: Path = IMAGES / "report.png") -> None:
    """Fit, report, photograph."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("No Chromium was found; install it to renew this picture.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, EXAMPLE], check=True, cwd=folder, env={**os.environ, "MPLBACKEND": "Agg"})
        page = folder / "frames.html"
        page.write_text(FRAMES, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1432,1298"]
        options += [f"--user-data-dir={folder / 'profile'}", f"--screenshot={out}"]
        subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True, timeout=120)
    print(out)


if __name__ == "__main__":
    main()
