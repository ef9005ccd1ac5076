"""The plots of a report, as Vega-Lite specifications."""

from typing import Any

import numpy as np

from exploy.report.content import Content, InputHistory, OutputHistory
from exploy.text import printable

_MAX_POINTS = 250
_MAX_ELEMENTS = 4
_MAX_PORTS = 12
_MAX_LETTERS = 32  # maximum length of a name in a legend
_SMALLEST_ERROR = 1e-10  # shown for an error of zero, because the axis is logarithmic
_DIGITS = 6
_BINS = 60

Spec = dict[str, Any]


def plots(content: Content) -> dict[str, Spec]:
    """All plots, by the id of their HTML element."""
    found: dict[str, Spec | None] = {"errors": _errors(content)} if content.outputs else {}
    found |= {f"input-{index}": _input(history) for index, history in enumerate(shown_inputs(content))}
    found |= {f"output-{index}": _output(output) for index, output in enumerate(shown_outputs(content))}
    if content.policy_latency.size:
        found["latency"] = _latency(content)
    return {place: spec for place, spec in found.items() if spec is not None}


def shown_inputs(content: Content) -> list[InputHistory]:
    """Inputs that have a plot."""
    return content.inputs[:_MAX_PORTS]


def shown_outputs(content: Content) -> list[OutputHistory]:
    """Outputs that have a plot, without memories. Outputs that differ come first."""
    memories = {memory.output for memory in content.file.contract.memories}
    outputs = [output for output in content.outputs if output.name not in memories and output.expected.shape[1]]
    return sorted(outputs, key=lambda output: output.agrees)[:_MAX_PORTS]


def _errors(content: Content) -> Spec:
    outputs = sorted(content.outputs, key=lambda output: (output.agrees, -float(output.errors.max())))[:_MAX_PORTS]
    finite = [error for output in outputs for error in output.errors if np.isfinite(error)]
    top = max(10 * content.tolerance, 10 * max(finite, default=0.0))
    values = [
        {
            "t": int(output.ticks[row]),
            "v": _rounded(min(max(float(output.errors[row]), _SMALLEST_ERROR), top)),
            "o": shortened(output.name),
        }
        for output in outputs
        for row in _thinned(len(output.ticks), keep=int(output.errors.argmax()))
    ]
    domain = [_SMALLEST_ERROR, top]
    line = {
        "mark": {"type": "line", "clip": True, "tooltip": True, "point": len(values) < 100},
        "data": {"values": values},
        "encoding": {
            "x": _x(),
            "y": {
                "field": "v",
                "type": "quantitative",
                "scale": {"type": "log", "domain": domain},
                "title": "largest error",
                "axis": {"format": ".0e", "tickCount": 6},
            },
            "color": {"field": "o", "type": "nominal", "title": None, "legend": {"orient": "bottom", "columns": 4}},
        },
    }
    rule = {
        "mark": {"type": "rule", "strokeDash": [6, 4], "color": "#d33"},
        "data": {"values": [{"v": content.tolerance}]},
        "encoding": {"y": {"field": "v", "type": "quantitative"}},
    }
    return _spec(height=260, layer=[line, rule])


def _input(history: InputHistory) -> Spec | None:
    columns = range(min(_MAX_ELEMENTS, history.values.shape[1]))
    rows = _thinned(len(history.values))
    values = [
        {
            "t": int(history.ticks[row]),
            "v": _number(history.values[row, column]),
            "e": shortened(history.elements[column]),
        }
        for column in columns
        for row in rows
    ]
    mark = {"type": "line", "tooltip": True, "strokeWidth": 1.5, "interpolate": "step-after"}
    return _series(values, mark, {"x": _x(), "y": _y(), "color": _color()})


def _output(output: OutputHistory) -> Spec | None:
    worst = output.elements.index(output.worst.element) if output.worst is not None else 0
    columns = list(dict.fromkeys([worst, *range(output.expected.shape[1])]))[:_MAX_ELEMENTS]
    rows = _thinned(len(output.ticks), keep=int(output.errors.argmax()))
    values = [
        {
            "t": int(output.ticks[row]),
            "v": _number(array[row, column]),
            "e": shortened(output.elements[column]),
            "s": source,
        }
        for source, array in (("expected", output.expected), ("file", output.got))
        for column in columns
        for row in rows
    ]
    encoding = {
        "x": _x(),
        "y": _y(),
        "color": _color(),
        "strokeDash": {"field": "s", "type": "nominal", "title": None, "scale": {"domain": ["expected", "file"]}},
    }
    return _series(values, {"type": "line", "tooltip": True}, encoding)


def _series(values: list[dict[str, Any]], mark: dict[str, Any], encoding: dict[str, Any]) -> Spec | None:
    """Lines over ticks, interrupted at values that are not finite; None if no value is finite."""
    if all(item["v"] is None for item in values):
        return None
    return _spec(height=140, data={"values": values}, mark=mark, encoding=encoding)


def _latency(content: Content) -> Spec:
    paths = {"policy step": content.policy_latency, "sub-step": content.sub_step_latency}
    paths = {name: times for name, times in paths.items() if times.size}
    longest = max(float(np.percentile(times, 99.9)) for times in paths.values())
    edges = np.linspace(0.0, longest, _BINS)
    values = []
    for name, times in paths.items():
        counts, _ = np.histogram(np.minimum(times, edges[-1]), bins=edges)
        shares = counts / max(1, times.size)
        values += [
            {"a": _rounded(edges[place]), "b": _rounded(edges[place + 1]), "v": _rounded(share), "p": name}
            for place, share in enumerate(shares)
            if share
        ]
    encoding = {
        "x": {"field": "a", "type": "quantitative", "title": "µs (the last bar has all slower ticks)", "bin": "binned"},
        "x2": {"field": "b"},
        "y": {"field": "v", "type": "quantitative", "title": "share of ticks", "stack": None, "axis": {"format": "%"}},
        "color": {"field": "p", "type": "nominal", "title": None, "legend": {"orient": "top"}},
    }
    mark = {"type": "bar", "opacity": 0.7, "tooltip": True}
    return _spec(height=200, data={"values": values}, mark=mark, encoding=encoding)


def _spec(**parts: Any) -> Spec:
    return {"width": "container", "autosize": {"type": "fit", "contains": "padding"}, **parts}


def _x() -> dict[str, Any]:
    return {"field": "t", "type": "quantitative", "title": "tick", "axis": {"tickMinStep": 1, "grid": False}}


def _y() -> dict[str, Any]:
    return {"field": "v", "type": "quantitative", "title": None, "scale": {"zero": False}}


def _color() -> dict[str, Any]:
    return {"field": "e", "type": "nominal", "title": None, "sort": None, "legend": {"orient": "right"}}


def _thinned(count: int, keep: int = 0) -> list[int]:
    """Evenly spaced positions of at most `_MAX_POINTS` points, plus the position `keep`."""
    chosen = np.linspace(0, count - 1, min(count, _MAX_POINTS)).round().astype(int)
    return sorted({*chosen.tolist(), keep})


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


def _number(number: float) -> float | None:
    return _rounded(number) if np.isfinite(number) else None


def shortened(name: str, letters: int = _MAX_LETTERS) -> str:
    """Shorten a name to a maximum number of letters, all of which can be seen."""
    name = printable(name)
    return name if len(name) <= letters else f"{name[: letters - 1]}…"
