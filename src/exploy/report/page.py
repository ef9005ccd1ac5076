"""Writes a report as one HTML page that contains its scripts and plots."""

import functools
import importlib.resources
import json
from pathlib import Path
from typing import Any

import numpy as np

from exploy.atomic_write import replacing
from exploy.contract import Contract, PortKind
from exploy.contract.formatting import format_elements, format_rates, format_shape, format_values
from exploy.contract.sources import source_notes
from exploy.diagnosis.diagnosis import short_place
from exploy.errors import OutputPathError, ViewError
from exploy.report.content import Content
from exploy.report.plots import plots, shortened, shown_inputs, shown_outputs
from exploy.text import printable
from exploy.verify.verdict import Verdict

_MAX_NAMES = 7
_MAX_LETTERS = 26  # maximum length of a name in the drawing
_STAGES = ("observe", "policy", "process", "apply")


def write(content: Content, path: Path) -> None:
    """Write a report.

    Raises:
        ViewError: If a package is missing.
        OutputPathError: If the page cannot be written. An existing page is kept.
    """
    if not path.name or path.is_dir() or (path.exists() and not path.is_file()):
        raise OutputPathError(f"Cannot write to {path}: it is not a file. Use a path such as report.html.")
    page = render(content)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render(content: Content) -> str:
    """The page as a string.

    Raises:
        ViewError: If a package is missing.
    """
    jinja, specs = _environment(), plots(content)
    contract = content.file.contract
    memories = {name for memory in contract.memories for name in (memory.input, memory.output)}
    ports = [("in", port) for port in contract.inputs] + [("out", port) for port in contract.outputs]
    page: str = jinja.get_template("page.html.jinja").render(
        content=content,
        contract=contract,
        made=contract.provenance,
        rates=format_rates(contract),
        elements=format_elements,
        shape=format_shape,
        short_place=short_place,
        ports=[(direction, port) for direction, port in ports if port.name not in memories],
        source_notes=source_notes(contract.inputs),
        tone=_tone(content),
        values=format_values,
        worst=max(content.outputs, key=lambda output: float(output.errors.max()), default=None),
        inputs=shown_inputs(content),
        outputs=shown_outputs(content),
        latencies=_latencies(content),
        drawing=_safe(jinja.get_template("pipeline.svg.jinja").render(**_drawing(contract))),
        plotted=set(specs),
        plots=_safe(json.dumps(specs, allow_nan=False).replace("<", "\\u003c")),
        script=_safe(_script()),
    )
    return page


def _tone(content: Content) -> str:
    """The colour of the verdict."""
    if content.result is Verdict.INCOMPLETE:
        return "warn"
    return "good" if content.ok else "bad"


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ViewError(f"A report needs more packages ({error}). Install them: pip install 'exploy[report]'") from None
    return jinja2.Environment(
        loader=jinja2.PackageLoader("exploy.report", "."),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """What a page shows of a value; jinja escapes it for HTML afterwards."""
    return printable(value, lines=True) if type(value) is str else value


@functools.cache
def _script() -> str:
    """Vega-Lite and the code that draws the plots, as one script."""
    try:
        import vl_convert
    except ImportError as error:
        raise ViewError(f"A report needs more packages ({error}). Install them: pip install 'exploy[report]'") from None
    own = importlib.resources.files("exploy.report").joinpath("draw_plots.js").read_text(encoding="utf-8")
    bundle: str = vl_convert.javascript_bundle(own)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _safe(text: str) -> Any:
    """Mark text that must not be escaped."""
    from markupsafe import Markup

    return Markup(text)


def _latencies(content: Content) -> dict[str, dict[str, Any]]:
    paths = {"policy step": content.policy_latency, "sub-step": content.sub_step_latency}
    return {
        name: {"ticks": times.size, "times": [*np.percentile(times, [50, 99, 99.9]), times.max()]}
        for name, times in paths.items()
        if times.size
    }


def _drawing(contract: Contract) -> dict[str, Any]:
    """Names and positions for the drawing of the pipeline."""
    inputs = _some([port.name for port in contract.inputs if port.kind not in PortKind.FILLED_BY_THE_CONTROLLER])
    outputs = _some([port.name for port in contract.outputs if port.kind != PortKind.MEMORY])
    memories = _some([memory.name for memory in contract.memories])
    inner = max(150, 60 + 22 * max(len(inputs), len(outputs)))
    memory_y = inner + 40
    hz = f" at {contract.hz / contract.decimation:g} Hz" if contract.hz else ""
    return {
        "inputs": inputs,
        "outputs": outputs,
        "memories": memories,
        "stages": _STAGES,
        "inner": inner,
        "memory_y": memory_y,
        "height": memory_y + 54 + 20 * len(memories) if memories else inner + 20,
        "policy_rate": f"policy step{hz}",
        "sub_step_rate": f"{contract.decimation - 1} sub-steps in between" if contract.decimation > 1 else None,
    }


def _some(names: list[str]) -> list[str]:
    short = [shortened(name, _MAX_LETTERS) for name in names]
    return short if len(short) <= _MAX_NAMES else [*short[: _MAX_NAMES - 1], f"and {len(short) - _MAX_NAMES + 1} more"]
