"""The commands, with their options and help. Each command is implemented in its own module, imported when it runs."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from exploy.runtime.signatures.trust import VARIABLE
from exploy.trainers.registry import TRAINERS
from exploy.version import __version__

app = typer.Typer(
    name="exploy",
    help="Export a policy from the simulator to one self-describing ONNX file; verify, inspect and run the file.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FACTORY = (
    "A function without arguments that returns (environment, actor), as module:function or path.py:function; or the "
    "task of a simulator, as mjlab:TASK or isaaclab:TASK."
)
_SOURCE = f"{_FACTORY} With --from, the checkpoint of a trainer."
_FROM = (
    "Export only the policy, from a checkpoint of this library. "
    "A checkpoint of sb3 is code that is run: it must be trusted."
)
_ENV = "The training environment, for its spaces: a gymnasium id, or a function."
_SET = "With --from, an argument of the library's export_policy(); with a task, a setting of its configuration."
_POLICY: dict[str, Any] = {"rich_help_panel": "Options with --from"}
_TASK: dict[str, Any] = {"rich_help_panel": "Options with mjlab:TASK or isaaclab:TASK"}
PolicyFile = Annotated[Path, typer.Argument(metavar="POLICY.ONNX", help="An exported file.")]
Checkpoint = Annotated[
    Path | None, typer.Option("--checkpoint", metavar="MODEL.PT", help="The checkpoint of the policy.", **_TASK)
]
Untrained = Annotated[bool, typer.Option("--untrained", help="Take a policy with random weights.", **_TASK)]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the configuration.", **_TASK)
]
Factory = Annotated[str, typer.Argument(metavar="MODULE:FACTORY", help=_FACTORY)]
OptionalFactory = Annotated[str | None, typer.Argument(metavar="[MODULE:FACTORY]", help=_FACTORY)]
Steps = Annotated[int, typer.Option(min=1, help="Number of policy steps.")]
Tolerance = Annotated[float, typer.Option(min=0.0, help="Tolerance; an error that rounding explains passes as well.")]
AllowUncompared = Annotated[
    list[str] | None,
    typer.Option("--allow-uncompared", metavar="OUTPUT", help="An output that need not be compared. May be repeated."),
]
InitialMemory = Annotated[
    list[str] | None,
    typer.Option(
        "--initial-memory",
        metavar="reset|found|NAME=JSON",
        help="Start values of memories: those after a reset, the current ones, or of one memory. May be repeated.",
    ),
]
OnStop = Annotated[
    list[str] | None,
    typer.Option(
        "--on-stop",
        metavar="[OUTPUT=]hold|zero|JSON",
        help="What an output is left with on a stop; with --from, the actions if none is named. May be repeated.",
    ),
]
ResetWithin = Annotated[int, typer.Option(min=1, help="Policy steps to wait for a reset, without a reset().")]
Lower = Annotated[bool, typer.Option("--lower/--no-lower", help="Also convert the environment to ONNX.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Threads = Annotated[int, typer.Option(min=1, max=256, help="Number of onnxruntime threads.")]


def _trust(keys: list[str] | None) -> list[str] | None:
    """Trust these keys alone in this command."""
    if keys:
        os.environ[VARIABLE] = os.pathsep.join(keys)
    return keys


TrustedKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-keys",
        metavar="KEY.PUB",
        callback=_trust,
        help="Public keys, or folders of them: the file must be signed with one. Default: EXPLOY_TRUSTED_KEYS.",
    ),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Run compiled code in the file that no trusted key has signed.")
]


class Library(StrEnum):
    """Training libraries whose checkpoints can be exported."""

    _ignore_ = "library"
    for library in TRAINERS:
        vars()[library] = library


def _example(*lines: str) -> dict[str, Any]:
    """Examples at the end of a command's help."""
    return {"epilog": "Example: " + "  or  ".join(f"[bold]{line}[/bold]" for line in lines)}


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options before the command."""


@app.command(**_example("exploy demo", "exploy demo my_folder"))
def demo(
    folder: Annotated[Path | None, typer.Argument(help="Output folder; a new temporary folder by default.")] = None,
) -> None:
    """Export the included cart-pole, verify the file, balance the pole with it, and write a report."""
    from exploy.cli.demo import run

    run(folder)


@app.command(**_example("exploy inspect policy.onnx", "exploy inspect policy.onnx --json"))
def inspect(policy: PolicyFile, as_json: AsJson = False, trusted_keys: TrustedKeys = None) -> None:
    """Print the inputs, outputs, rates, memories, constants, provenance and signer of a file.

    Exit code 1 if its signature does not fit.
    """
    from exploy.cli.inspect import run

    run(policy, as_json)


@app.command(**_example("exploy check my_project.export:make"))
def check(
    factory: Factory,
    steps: Steps = 20,
    initial_memory: InitialMemory = None,
    reset_within: ResetWithin = 500,
    lower: Lower = True,
    as_json: AsJson = False,
    checkpoint: Checkpoint = None,
    untrained: Untrained = False,
    settings: Settings = None,
) -> None:
    """Find problems that an export of an environment would have. Exit code 1 if there is a finding above info."""
    from exploy.cli.check import run
    from exploy.cli.factory import TaskOptions

    run(
        factory,
        TaskOptions(checkpoint, untrained, settings or []),
        steps,
        as_json,
        initial_memory or [],
        reset_within,
        lower,
    )


@app.command(
    **_example(
        "exploy discover my_project.export:make --output torque=env.torque --write registration.py",
        "exploy discover my_project.export:make --decide env.gains=constant",
    )
)
def discover(
    factory: Factory,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="REGISTRATION.PY", help="The module to write the code to.")
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output", metavar="NAME=PATH", help="A tensor that the robot gets, in terms of env. May be repeated."
        ),
    ] = None,
    decisions: Annotated[
        list[str] | None,
        typer.Option(
            "--decide", metavar="PATH=input|constant", help="The answer to a question about a tensor. May be repeated."
        ),
    ] = None,
    steps: Steps = 20,
    reset_within: ResetWithin = 500,
    as_json: AsJson = False,
    checkpoint: Checkpoint = None,
    untrained: Untrained = False,
    settings: Settings = None,
) -> None:
    """Find what to register of an environment, and print the code. Exit code 1 if something is left to decide."""
    from exploy.cli.discover import run
    from exploy.cli.factory import TaskOptions

    run(
        factory,
        TaskOptions(checkpoint, untrained, settings or []),
        write,
        outputs or [],
        decisions or [],
        steps,
        reset_within,
        as_json,
    )


@app.command(
    **_example(
        "exploy export my_project.export:make -o policy.onnx",
        "exploy export mjlab:Mjlab-Velocity-Flat-Unitree-G1 --checkpoint model.pt -o policy.onnx",
        "exploy export --from sb3 model.zip --vecnormalize vn.pkl -o policy.onnx",
    )
)
def export(
    source: Annotated[str, typer.Argument(metavar="MODULE:FACTORY|mjlab:TASK|CHECKPOINT", help=_SOURCE)],
    library: Annotated[Library | None, typer.Option("--from", help=_FROM)] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("policy.onnx"),
    strict: Annotated[bool, typer.Option(help="Check the environment first, and stop on errors.")] = True,
    infer_memory: Annotated[bool, typer.Option("--infer-memory", help="Register missing memories.")] = False,
    allow_random: Annotated[bool, typer.Option("--allow-random", help="Allow random numbers in the actor.")] = False,
    allow_uncompared: AllowUncompared = None,
    initial_memory: InitialMemory = None,
    reset_within: ResetWithin = 500,
    on_stop: OnStop = None,
    trace: Annotated[bool, typer.Option(help="Store a trace for the self-test of the file.")] = True,
    opset: Annotated[int, typer.Option(min=1, help="ONNX opset version.")] = 20,
    target_onnxruntime: Annotated[str | None, typer.Option(help="Release on the robot, e.g. 1.20.")] = None,
    rate: Annotated[float | None, typer.Option(help="Policy steps per second.", **_POLICY)] = None,
    dynamic_batch: Annotated[
        bool, typer.Option("--dynamic-batch", help="Allow any number of robots.", **_POLICY)
    ] = False,
    obs_names: Annotated[str | None, typer.Option(help="Names of the elements: a,b,c.", **_POLICY)] = None,
    action_names: Annotated[str | None, typer.Option(help="Names of the elements: a,b,c.", **_POLICY)] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration of the run, agent.yaml.", **_POLICY)] = None,
    agent: Annotated[str | None, typer.Option(metavar="MODULE:CLASS", help="Class of the network.", **_POLICY)] = None,
    env: Annotated[str | None, typer.Option(metavar="ID|MODULE:FUNCTION", help=_ENV, **_POLICY)] = None,
    vecnormalize: Annotated[Path | None, typer.Option(help="VecNormalize of sb3; also code.", **_POLICY)] = None,
    said: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=_SET)] = None,
    checkpoint: Checkpoint = None,
    untrained: Untrained = False,
) -> None:
    """Export an environment and its actor, or the policy in a trainer's checkpoint, to one verified ONNX file."""
    common = {"golden_trace": trace, "opset_version": opset, "target_onnxruntime": target_onnxruntime}
    from exploy.cli.stop_values import parse

    stops = parse(on_stop or [], may_omit_name=library is not None)
    given = {"config": config, "agent": agent, "env": env, "vecnormalize": vecnormalize}
    ports = {"rate_hz": rate, "dynamic_batch": dynamic_batch, "obs_names": obs_names, "action_names": action_names}
    for_environments = bool(infer_memory or allow_random or allow_uncompared or initial_memory)
    if library is not None:
        if checkpoint or untrained:
            raise typer.BadParameter(
                "--checkpoint and --untrained are for tasks of simulators; with --from, give PATH."
            )
        from exploy.cli.export_checkpoint import run as run_checkpoint

        options = {**ports, **common, "on_stop": stops}
        run_checkpoint(library.value, source, output, given, said or [], options, for_environments)
        return
    refused = [name for name, value in {**given, **ports}.items() if value]
    if refused:
        raise typer.BadParameter(f"{', '.join(refused)}: only with --from, which exports a checkpoint.")
    from exploy.cli.export import run
    from exploy.cli.factory import TaskOptions

    run(
        source,
        TaskOptions(checkpoint, untrained, said or []),
        output,
        initial_memory or [],
        strict=strict,
        infer_memory=infer_memory,
        allow_random=allow_random,
        allow_uncompared=allow_uncompared or [],
        reset_within=reset_within,
        on_stop=stops,
        **common,
    )


@app.command(name="compile", **_example("exploy compile policy.onnx", "exploy compile policy.onnx -o out/"))
def compile_to_c(
    policy: PolicyFile,
    target: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="An archive, NAME.c.zip, or a folder; by default, next to the file."),
    ] = None,
    unpack: Annotated[bool, typer.Option("--unpack", help="Write a folder of sources and library.")] = False,
    name: Annotated[str | None, typer.Option(help="Name of the program; that of the file by default.")] = None,
    numbers: Annotated[bool, typer.Option("--numbers", help="Write all weights as numbers, for any compiler.")] = False,
    trusted_keys: TrustedKeys = None,
) -> None:
    """Write a file as C, compile it, and compare it with the trace in the file.

    Exit code 3 if it could not be compared: there is no compiler, or no trace.
    """
    from exploy.cli.compile import run

    run(policy, target, unpack, name, numbers)


@app.command(**_example("exploy verify policy.onnx", "exploy verify policy.onnx my_project.export:make"))
def verify(
    policy: PolicyFile,
    factory: OptionalFactory = None,
    steps: Steps = 200,
    atol: Tolerance = 1e-5,
    rtol: Tolerance = 1e-5,
    allow_uncompared: AllowUncompared = None,
    checkpoint: Checkpoint = None,
    untrained: Untrained = False,
    settings: Settings = None,
    trusted_keys: TrustedKeys = None,
    allow_code: AllowCode = False,
) -> None:
    """Compare a file with its environment, or with the trace in the file.

    Exit code 1 if it differs, 3 if something could not be compared.
    """
    from exploy.cli.factory import TaskOptions
    from exploy.cli.verify import run

    run(
        policy,
        factory,
        TaskOptions(checkpoint, untrained, settings or []),
        steps,
        allow_code=allow_code,
        atol=atol,
        rtol=rtol,
        allow_uncompared=allow_uncompared or [],
    )


@app.command(**_example("exploy bench policy.onnx", "exploy bench policy.onnx --hz 1000"))
def bench(
    policy: PolicyFile,
    ticks: Annotated[int, typer.Option(min=10, max=10_000_000, help="Number of ticks to measure.")] = 20_000,
    hz: Annotated[float | None, typer.Option(help="Rate of the ticks; as fast as possible by default.")] = None,
    threads: Threads = 1,
    as_json: AsJson = False,
    trusted_keys: TrustedKeys = None,
    allow_code: AllowCode = False,
) -> None:
    """Measure the duration of ticks on this machine, and the rate that this allows."""
    from exploy.cli.bench import run

    run(policy, ticks, hz, threads, as_json, allow_code)


@app.command(**_example("exploy diff old.onnx new.onnx"))
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD.ONNX", help="An exported file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW.ONNX", help="Another exported file.")],
    as_json: AsJson = False,
    trusted_keys: TrustedKeys = None,
    allow_code: AllowCode = False,
) -> None:
    """Compare the interface and the outputs of two files. Exit code 1 if the interface differs."""
    from exploy.cli.diff import run

    run(old, new, as_json, allow_code)


@app.command(name="run", **_example("exploy run policy.onnx --replay run.mcap"))
def run_log(
    policy: PolicyFile,
    replay: Annotated[Path, typer.Option(help="A log that a Recorder wrote, .npz or .mcap.")],
    tolerance: Annotated[float, typer.Option(min=0.0, help="Largest allowed error of an output.")] = 1e-4,
    trusted_keys: TrustedKeys = None,
    allow_code: AllowCode = False,
) -> None:
    """Replay the log of a robot and compare the outputs. Exit code 1 if they differ, 3 if ticks are missing."""
    from exploy.cli.run import run

    run(policy, replay, tolerance, allow_code)


@app.command(**_example("exploy view policy.onnx"))
def view(
    policy: PolicyFile,
    port: Annotated[int, typer.Option(help="Port of the web server; any free port by default.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
    trusted_keys: TrustedKeys = None,
) -> None:
    """Show the graph in the browser with Netron. Press Ctrl-C to stop."""
    from exploy.cli.view import run

    run(policy, port, browser)


@app.command(**_example("exploy report policy.onnx my_project.export:make -o report.html"))
def report(
    policy: PolicyFile,
    factory: OptionalFactory = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    steps: Steps = 200,
    atol: Tolerance = 1e-5,
    rtol: Tolerance = 1e-5,
    allow_uncompared: AllowUncompared = None,
    checkpoint: Checkpoint = None,
    untrained: Untrained = False,
    settings: Settings = None,
    trusted_keys: TrustedKeys = None,
) -> None:
    """Write a report about a file as one HTML page that opens offline.

    Exit code 1 if the file differs, 3 if something could not be compared.
    """
    from exploy.cli.factory import TaskOptions
    from exploy.cli.report import run

    task = TaskOptions(checkpoint, untrained, settings or [])
    run(policy, factory, task, output, steps, atol=atol, rtol=rtol, allow_uncompared=allow_uncompared or [])


keys_app = typer.Typer(name="keys", help="Make keys to sign files with.", no_args_is_help=True)
app.add_typer(keys_app)
_PASSPHRASE = "EXPLOY_KEY_PASSPHRASE"


@keys_app.command(name="new", **_example("exploy keys new --out alice.key --name Alice"))
def new_key(
    out: Annotated[Path, typer.Option("--out", "-o", help="The private key to write; it must not exist.")] = Path(
        "exploy.key"
    ),
    name: Annotated[str | None, typer.Option(help="Your name; that of the file by default.")] = None,
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help=f"Ask for a passphrase, or take it from {_PASSPHRASE}.")
    ] = False,
) -> None:
    """Make a private key to sign files with, and its public key for the machines that trust you."""
    from exploy.cli.sign import run_new_key

    run_new_key(out, name, _ask(confirm=True) if passphrase else None)


@app.command(**_example("exploy sign policy.onnx --key alice.key"))
def sign(
    policy: PolicyFile,
    key: Annotated[Path, typer.Option("--key", "-k", help="The private key, made by `exploy keys new`.")],
    name: Annotated[str | None, typer.Option(help="Your name; that of the public key by default.")] = None,
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help=f"Ask for the passphrase, or take it from {_PASSPHRASE}.")
    ] = False,
) -> None:
    """Sign a file: writes POLICY.ONNX.sig next to it, which tells who made the file."""
    from exploy.cli.sign import run_sign

    run_sign(policy, key, name, _ask() if passphrase else os.environ.get(_PASSPHRASE))


def _ask(confirm: bool = False) -> str:
    """The passphrase of a key, from the environment or the terminal."""
    given = os.environ.get(_PASSPHRASE)
    return given or str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm))
