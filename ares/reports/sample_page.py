"""The samples of a step as one self-contained HTML page: the images of a prompt beside its answers.

Covered: thumbnails, prompt, response, reward and its parts. Not covered: training curves (MLflow has them).
"""

import base64
import io
from pathlib import Path

from jinja2 import Environment

from ares.data import MediaError, path_of, thumbnail
from ares.reports.samples import reward_line, step_samples
from ares.runs import read_config
from ares.store import StoreError, run_store

SIDE = 160
"""Pixels of a thumbnail's longer edge."""
PAGE = """<!doctype html><meta charset="utf-8"><title>{{ run }}, step {{ step }}</title>
<style>body{font:14px sans-serif;margin:2em;max-width:70em}section{display:flex;gap:1em;border-top:1px solid #ccc;
padding:.7em 0}figure{margin:0}figcaption{color:#666;font-size:11px;max-width:160px;overflow-wrap:anywhere}
pre{white-space:pre-wrap;margin:.2em 0}img{image-rendering:pixelated}</style>
<h1>{{ run }}, step {{ step }}: {{ samples | length }} samples</h1>
{% for row in samples %}<section>{% for name, uri in row.pictures %}<figure>{% if uri %}<img src="{{ uri }}">{% endif %}
<figcaption>{{ name }}</figcaption></figure>{% endfor %}<div><b>{{ row.id }}</b>, sample {{ row.sample }}{% if
row.difficulty %}, {{ row.difficulty }}{% endif %}<pre>{{ row.prompt }}</pre><pre>{{ row.response }}</pre>
<pre>{{ row.reward }}</pre></div></section>
{% endfor %}"""


def write_samples(run: str, step: int, target: Path) -> None:
    """Write the samples of a committed step to `target`, with the names of missing pictures. Raises StoreError."""
    weights = read_config(run_store(run)).reward.weight_of
    samples = [
        {
            "id": row["id"],
            "sample": row["sample"],
            "difficulty": row.get("difficulty"),
            "prompt": row["prompt"],
            "response": row["response"],
            "reward": reward_line(row, weights) if "reward" in row else f"accuracy {row['accuracy']}",
            "pictures": [_picture(reference) for reference in row.get("media_references", ())],
        }
        for row in step_samples(run, step).to_dict("records")
    ]
    page = Environment(autoescape=True).from_string(PAGE)
    try:
        target.write_text(page.render(run=run, step=step, samples=samples), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{target}: the page cannot be written: {error.strerror}") from error


def _picture(reference: str) -> tuple[str, str | None]:
    """The name of a picture and, if it can be read, a data URI of it."""
    try:
        written = io.BytesIO()
        thumbnail(reference, SIDE).save(written, "PNG")
    except MediaError as error:
        return str(error), None
    return path_of(reference), "data:image/png;base64," + base64.b64encode(written.getvalue()).decode()
