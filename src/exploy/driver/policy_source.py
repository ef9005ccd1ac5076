"""A policy alone, about to become a file."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from exploy.backends.artifact import Artifact
from exploy.capture.program import Program
from exploy.contract import METADATA_KEY, Contract
from exploy.description.metadata import to_json
from exploy.description.policy_contract import Names, describe_policy
from exploy.errors import MetadataError
from exploy.live.evaluation_mode import evaluation_mode
from exploy.policy.capture import capture_policy
from exploy.policy.policy import Policy
from exploy.verify.policy_checks import require_working_policy, verify_against_policy
from exploy.version import __version__


@dataclass(frozen=True)
class PolicyOptions:
    """How a policy alone is exported.

    Args:
        obs_names: A name for each element of the observation; by port where there are several.
        action_names: A name for each element of the actions.
        rate_hz: Policy steps in a second.
        dynamic_batch: Leave the number of robots open, as the size `batch`; otherwise it is 1.
        model_source: Where the policy comes from, stored in the metadata.

    Raises:
        MetadataError: If one of them is of another type.
    """

    obs_names: Names | None = None
    action_names: Sequence[str] | None = None
    rate_hz: float | None = None
    dynamic_batch: bool = False
    model_source: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.dynamic_batch, bool):
            raise MetadataError(f"dynamic_batch must be True or False, got {self.dynamic_batch!r}.")
        if not isinstance(self.model_source, dict | None):
            raise MetadataError(f"model_source must be a dictionary, got {type(self.model_source).__name__}.")


class PolicySource:
    """A policy alone, about to become a file.

    Args:
        policy: The policy.
        options: How to export it.
    """

    decimation = None

    def __init__(self, policy: Policy, options: PolicyOptions):
        self._policy = policy
        self._options = options

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """The policy is in evaluation mode, and computes in the precision that its weights have."""
        with evaluation_mode([self._policy]), torch.autocast("cpu", enabled=False):
            yield

    def capture(self) -> Program:
        """Capture one step of the policy.

        Raises:
            PolicyError: If it cannot be computed, or has lost its weights.
            CaptureError: If it cannot be captured.
        """
        require_working_policy(self._policy)
        return capture_policy(self._policy, dynamic_batch=self._options.dynamic_batch)

    def program_for_trace(self, program: Program) -> Program:
        """The program for one robot."""
        return capture_policy(self._policy, dynamic_batch=False) if self._options.dynamic_batch else program

    def describe(self, program: Program, artifact: Artifact, backend: str) -> Contract:
        """What the file says about itself."""
        given = self._options
        return describe_policy(
            self._policy,
            program,
            artifact,
            given.obs_names,
            given.action_names,
            given.rate_hz,
            given.model_source,
            backend,
        )

    def metadata(self, contract: Contract) -> dict[str, str]:
        """The documented keys."""
        properties = {
            "exploy_version": json.dumps(__version__),
            "decimation": "1",
            "model_source": to_json("model_source", dict(contract.provenance.model_source)),
            METADATA_KEY: contract.to_json(),
        }
        return properties if contract.hz is None else properties | {"update_rate": str(contract.hz)}

    def verify(self, program: Program, data: bytes) -> None:
        """Run the file beside the policy.

        Raises:
            VerificationError: If an output or a memory differs.
        """
        verify_against_policy(self._policy, data, program.random_outputs, program.precision)
