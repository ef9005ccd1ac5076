"""What the traps claim about their environments, as functions that try it."""

from collections.abc import Callable, Iterator

import torch

from exploy.environment.exportable_environment import ExportableEnvironment
from tests.support.discovery_traps.trap import evaluate

Claim = Callable[[ExportableEnvironment, torch.nn.Module], bool]
LONG = 400


def steps_of(env: ExportableEnvironment, actor: torch.nn.Module, steps: int) -> Iterator[bool]:
    """Step an environment with its actor in evaluation mode; yields after each step whether it was reset."""
    was_training = actor.training
    actor.eval()
    with torch.no_grad():
        observations = env.observations_reset()
        for _ in range(steps):
            observations, done = env.step(actor(observations))
            yield done
    actor.train(was_training)


def stands_still(expression: str, steps: int) -> Claim:
    """Claim that a tensor does not change for so many steps, and does later."""

    def is_true(env: ExportableEnvironment, actor: torch.nn.Module) -> bool:
        first, changed_at = evaluate(expression, env, actor).clone(), LONG
        for number, _ in enumerate(steps_of(env, actor, LONG)):
            now = evaluate(expression, env, actor)
            if not torch.equal(torch.nan_to_num(now, 9.0), torch.nan_to_num(first, 9.0)):
                changed_at = number
                break
        return steps <= changed_at < LONG

    return is_true


def stay_equal(first: str, second: str, steps: int) -> Claim:
    """Claim that two expressions have the same values after each of so many steps."""

    def is_true(env: ExportableEnvironment, actor: torch.nn.Module) -> bool:
        return all(
            torch.equal(evaluate(first, env, actor), evaluate(second, env, actor)) for _ in steps_of(env, actor, steps)
        )

    return is_true


def holds_for(condition: str, steps: int) -> Claim:
    """Claim that a condition holds after each of so many steps, and not always later."""

    def is_true(env: ExportableEnvironment, actor: torch.nn.Module) -> bool:
        held = [bool(evaluate(condition, env, actor)) for _ in steps_of(env, actor, LONG)]
        return all(held[:steps]) and not all(held)

    return is_true


def changes_only_by_resets(expression: str) -> Claim:
    """Claim that a tensor has new values after resets, and only then."""

    def is_true(env: ExportableEnvironment, actor: torch.nn.Module) -> bool:
        before, changes = evaluate(expression, env, actor).clone(), []
        for done in steps_of(env, actor, 120):
            now = evaluate(expression, env, actor).clone()
            changes.append((done, not torch.equal(now, before)))
            before = now
        return any(done for done, _ in changes) and all(done == changed for done, changed in changes)

    return is_true
