"""The report in a real browser: it renders offline, with all plots and without console messages."""

import dataclasses
import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.report.content import Content, output_history
from exploy.report.gather import from_environment, from_trace
from exploy.report.page import render, write
from exploy.report.plots import plots
from tests.support.factories import forgetful_robot, robot
from tests.support.files import file_of_robot_in_simulation, reciprocal_file, robot_file
from tests.support.files import write as write_file

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
needs_browser = pytest.mark.skipif(not BROWSER, reason="Chromium is not installed")
MAX_BYTES = 3_000_000


def opened(page: Path, *options: str) -> tuple[str, list[str]]:
    """The page in a browser after its scripts have run, and the console messages."""
    arguments = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
        "--enable-logging=stderr", "--virtual-time-budget=20000", "--window-size=1200,2400",
        f"--user-data-dir={page.parent / 'browser'}", *options, "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    result = subprocess.run([BROWSER, *arguments], capture_output=True, text=True, timeout=180)
    return result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line]


def report_of(factory: Any, folder: Path) -> Content:
    env, actor = factory()
    return from_environment(export_environment_as_onnx(env, actor, folder), env, actor, steps=60)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return report_of(robot, tmp_path_factory.mktemp("good"))


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return report_of(forgetful_robot, tmp_path_factory.mktemp("bad"))


# -- content --------------------------------------------------------------------------------------------------


def test_a_good_file_is_called_good(good: Content) -> None:
    assert good.ok and good.verdict == "agrees: the file behaves like the environment (840 comparisons)."
    assert {output.name for output in good.outputs} >= {"obs", "actions", "joint_targets", "memory.last.out"}
    targets = next(output for output in good.outputs if output.name == "joint_targets")
    assert len(targets.ticks) == 240 and targets.elements == ("toe", "hip", "knee")
    assert targets.errors.max() < 1e-5
    assert {history.name for history in good.inputs} == {"joints.pos", "joints.vel", "cmd"}
    assert good.policy_latency.size and good.sub_step_latency.size


def test_a_forgotten_input_is_named_with_the_worst_step_and_element(bad: Content) -> None:
    assert not bad.ok and bad.verdict.startswith("differs: the file does not agree with the environment: obs")
    observations = next(output for output in bad.outputs if output.name == "obs")
    assert observations.worst is not None
    assert observations.errors[observations.ticks == observations.worst.tick] == observations.errors.max()
    assert abs(observations.worst.expected - observations.worst.got) == pytest.approx(observations.errors.max())
    assert bad.diagnosis is not None and bad.diagnosis.errors[0].tensor == "env.vel"


def test_without_an_environment_the_trace_is_compared(tmp_path: Path) -> None:
    content = from_trace(write_file(robot_file(), tmp_path))
    assert content.ok and content.diagnosis is None and content.steps == 3
    assert {output.name for output in content.outputs} == {"actions", "obs", "joint_targets"}


def test_a_file_without_a_trace_needs_its_environment(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no golden trace\. Also pass the environment"):
        from_trace(write_file(reciprocal_file(), tmp_path))


# -- the page -------------------------------------------------------------------------------------------------


class Links(html.parser.HTMLParser):
    """Collects the external resources that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.found += [
            value for name, value in attributes if name in ("src", "href") and not (value or "#").startswith("#")
        ]


def test_everything_is_in_the_page_and_it_is_small(good: Content) -> None:
    page = render(good)
    links = Links()
    links.feed(page)
    assert links.found == []
    assert len(page.encode()) < MAX_BYTES


def test_what_a_robot_cannot_have_is_said_at_the_top_and_in_the_table(good: Content, tmp_path: Path) -> None:
    page = render(from_trace(write_file(file_of_robot_in_simulation(), tmp_path)))
    top, _, rest = page.partition("</section>")
    assert '<p class="warning">A robot cannot have joints.pos: only a simulator knows it.</p>' in top
    assert "<p>An estimator must give joints.vel: a robot does not measure it.</p>" in top
    assert "<th>source</th>" in rest and '<td class="warning">simulator</td>' in rest and "<td>estimated</td>" in rest
    untold = render(good).partition('<script type="module">')[0]
    assert "<th>source</th>" not in untold and "A robot" not in untold


def test_names_of_users_are_text_and_never_code(good: Content) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    histories = [dataclasses.replace(good.inputs[0], name=evil, elements=(evil,) * 4), *good.inputs[1:]]
    page = render(dataclasses.replace(good, inputs=histories, path=Path(evil))).partition('<script type="module">')[0]
    assert "<script>alert" not in page and "<img" not in page


def test_a_page_takes_its_place_when_it_is_whole(good: Content, tmp_path: Path) -> None:
    write(good, tmp_path / "new" / "report.html")
    assert [item.name for item in (tmp_path / "new").iterdir()] == ["report.html"]


def test_values_that_are_not_finite_do_not_spoil_it(good: Content) -> None:
    output = good.outputs[0]
    got = output.got.copy()
    got[3, 0] = np.nan
    errors = output.errors.copy()
    errors[3] = np.inf
    spoiled = dataclasses.replace(good, outputs=[dataclasses.replace(output, got=got, errors=errors, agrees=False)])
    specs = plots(spoiled)
    json.dumps(specs, allow_nan=False)
    drawn = [item["v"] for item in specs["errors"]["layer"][0]["data"]["values"]]
    assert max(drawn) == specs["errors"]["layer"][0]["encoding"]["y"]["scale"]["domain"][1]
    assert any(item["v"] is None for item in specs["output-0"]["data"]["values"])


def test_an_output_that_is_never_finite_has_no_plot(good: Content) -> None:
    output = good.outputs[0]
    never = np.full_like(output.got, np.inf)
    replaced = dataclasses.replace(output, expected=never, got=never, errors=np.zeros_like(output.errors), worst=None)
    content = dataclasses.replace(good, outputs=[replaced])
    assert "output-0" not in plots(content)
    assert "never finite" in render(content)


def test_the_worst_element_is_found_beside_equal_ones_that_are_not_finite() -> None:
    compared = [(0, np.array([np.nan, np.inf, 1.0]), np.array([np.nan, np.inf, 1.5]))]
    history = output_history("y", ("a", "b", "c"), compared, [0.5], agrees=False)
    assert history.worst is not None and history.worst.element == "c"


def test_many_ports_with_long_names_stay_small(good: Content) -> None:
    name = "a_very_long_name_of_an_element_" * 4
    output, history = good.outputs[0], good.inputs[0]
    outputs = [
        dataclasses.replace(output, name=f"{name}{index}", elements=tuple(f"{name}{n}" for n in range(13)), worst=None)
        for index in range(60)
    ]
    inputs = [dataclasses.replace(history, name=f"{name}{index}") for index in range(60)]
    assert len(render(dataclasses.replace(good, outputs=outputs, inputs=inputs)).encode()) < MAX_BYTES


def test_inputs_and_outputs_have_the_same_ticks(good: Content) -> None:
    targets = next(output for output in good.outputs if output.name == "joint_targets")
    np.testing.assert_array_equal(good.inputs[0].ticks, targets.ticks)


# -- in the browser -------------------------------------------------------------------------------------------


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["good", "bad"])
def test_it_renders_with_all_plots_and_no_complaint(which: str, scheme: str, request: Any, tmp_path: Path) -> None:
    content: Content = request.getfixturevalue(which)
    write(content, tmp_path / "report.html")
    page, console = opened(tmp_path / "report.html", f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
    assert console == []
    drawn = re.search(r'data-drawn="(\d+)"', page)
    assert drawn is not None and int(drawn[1]) == page.count('class="marks"') >= 7
    assert content.verdict in page
    assert page.count("<path") > 50
    if which == "bad":
        assert "unregistered input" in page and "env.vel" in page


@needs_browser
def test_a_picture_of_it_is_not_empty(good: Content, tmp_path: Path) -> None:
    write(good, tmp_path / "report.html")
    opened(tmp_path / "report.html", f"--screenshot={tmp_path / 'page.png'}")
    assert (tmp_path / "page.png").stat().st_size > 50_000
