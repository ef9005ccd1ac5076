"""Train mjlab's cart-pole with mjlab's own runner: `.venv-mjlab/bin/python -m tools.train_mjlab_cart_pole`.

It takes a few minutes on one core. It is deterministic for the same seed, machine and versions of torch and mjlab. The
checkpoint has the actor alone, without the critic and the state of the optimizer, which an export does not need.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import mjlab.tasks  # noqa: F401 - registers the tasks
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.rl import MjlabOnPolicyRunner, RslRlVecEnvWrapper
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg

TASK = "Mjlab-Cartpole-Balance"
CHECKPOINT = Path(__file__).parents[1] / "examples" / "mjlab_cart_pole.pt"
ROBOTS = 64
ITERATIONS = 150


def train(seed: int, iterations: int) -> MjlabOnPolicyRunner:
    """Train from scratch with the task's own configuration, and fewer robots than on a GPU."""
    env_cfg, runner_cfg = load_env_cfg(TASK), load_rl_cfg(TASK)
    env_cfg.scene.num_envs, env_cfg.seed, runner_cfg.seed = ROBOTS, seed, seed
    torch.manual_seed(seed)
    env = RslRlVecEnvWrapper(ManagerBasedRlEnv(env_cfg, device="cpu"), clip_actions=runner_cfg.clip_actions)
    runner = MjlabOnPolicyRunner(env, dataclasses.asdict(runner_cfg), log_dir=None, device="cpu")
    runner.learn(iterations, init_at_random_ep_len=True)
    return runner


def save_actor(runner: MjlabOnPolicyRunner, path: Path) -> None:
    """Save the actor of a runner where `exploy export mjlab:TASK --checkpoint` looks for it."""
    weights: dict[str, Any] = runner.alg.save()["actor_state_dict"]
    torch.save({"actor_state_dict": weights, "iter": runner.current_learning_iteration, "infos": None}, path)


def mean_return(runner: MjlabOnPolicyRunner) -> float:
    """The mean return of the deterministic policy over an episode of each robot; the largest possible is 50."""
    env, policy = runner.env, runner.get_inference_policy()
    observations, _ = env.reset()
    total = torch.zeros(env.num_envs)
    with torch.inference_mode():
        for _ in range(env.max_episode_length):
            observations, rewards, _, _ = env.step(policy(observations))
            total += rewards
    return float(total.mean())


def main() -> None:
    """Train, and save the actor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--output", type=Path, default=CHECKPOINT)
    arguments = parser.parse_args()
    runner = train(arguments.seed, arguments.iterations)
    save_actor(runner, arguments.output)
    print(f"{arguments.output}: mean return {mean_return(runner):.2f} of 50")


if __name__ == "__main__":
    main()
