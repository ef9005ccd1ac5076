"""The multi-agent networks of TorchRL, which swap parameters into an empty network at each call."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from exploy.trainers.torchrl.copies import own


def mend_multiagent(module: torch.nn.Module) -> None:
    """Give each agent of the multi-agent networks in a copy a network of its own, or all of them the shared one."""
    for part in list(module.modules()):
        if any(base.__name__ == "MultiAgentNetBase" for base in type(part).__mro__):
            _mend(part)


def _mend(part: Any) -> None:
    """What the library's own forward uses is replaced: the parameters are in the networks already."""
    params = part.params
    if part.share_params:
        part._empty_net = _filled(part._empty_net, params)
        _replace(part, "params", _InPlace())
        return
    networks = torch.nn.ModuleList(_filled(part._empty_net, params[agent]) for agent in range(part.n_agents))
    part.exploy_networks = networks
    _replace(part, "vmap_func_module", _each_agent_by_itself(networks))
    _replace(part, "params", _InPlace())


def _filled(empty: torch.nn.Module, params: Any) -> torch.nn.Module:
    network = own(empty)
    for key, value in params.items(True, True):
        *path, name = (key,) if isinstance(key, str) else key
        owner: Any = network.get_submodule(".".join(path))
        if name in vars(owner):
            delattr(owner, name)
        for registered in (owner._parameters, owner._buffers):
            registered.pop(name, None)
        owner.register_buffer(name, value.detach().clone())
    return network.eval()


def _replace(part: Any, name: str, value: Any) -> None:
    part._modules.pop(name, None)
    vars(part)[name] = value


class _InPlace:
    """Stands for parameters that are in their network already."""

    def to_module(self, *_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()


def _each_agent_by_itself(networks: Any) -> Callable[..., Any]:
    """What `vmap` over agents gives, agent by agent."""

    def run_all(_: Any, in_dims: Any = 0, out_dims: Any = 0, **__: Any) -> Callable[..., torch.Tensor]:
        along = in_dims[1] if isinstance(in_dims, tuple) else in_dims
        out = out_dims[0] if isinstance(out_dims, tuple) else out_dims

        def run(_: Any, inputs: torch.Tensor) -> torch.Tensor:
            parts = [inputs] * len(networks) if along is None else inputs.unbind(along)
            return torch.stack([network(part) for network, part in zip(networks, parts, strict=True)], dim=out)

        return run

    return run_all
