"""A policy without environment as the source of an export."""

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
    """Options for the export of a policy without environment.

    Args:
        obs_names: A name for each element of the observation; a dictionary by port if there are several ports.
        action_names: A name for each element of the actions.
        rate_hz: Policy steps per second.
        dynamic_batch: Export with a dynamic batch size named `batch`; otherwise the batch size is 1.
        model_source: The origin of the policy, stored in the metadata.
        on_stop: What the actions are left with on a stop; a dictionary by output if there are several.

    Raises:
        MetadataError: If an option has the wrong type.
    """

    obs_names: Names | None = None
    action_names: Sequence[str] | None = None
    rate_hz: float | None = None
    dynamic_batch: bool = False
    model_source: dict[str, Any] | None = None
    on_stop: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.dynamic_batch, bool):
            raise MetadataError(f"dynamic_batch must be True or False, got {self.dynamic_batch!r}.")
        if not isinstance(self.model_source, dict | None):
            raise MetadataError(f"model_source must be a dictionary, got {type(self.model_source).__name__}.")


class PolicySource:
    """A policy without environment as the source of an export.

    Args:
        policy: The policy.
        options: The options of the export.
    """

    decimation = None

    def __init__(self, policy: Policy, options: PolicyOptions):
        self._policy = policy
        self._options = options

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Put the policy into evaluation mode and disable autocast, so that the precision of its weights is used."""
        with evaluation_mode([self._policy]), torch.autocast("cpu", enabled=False):
            yield

    def capture(self) -> Program:
        """Capture one step of the policy.

        Raises:
            PolicyError: If the policy cannot be computed, or has NaN weights.
            CaptureError: If the policy cannot be captured.
        """
        require_working_policy(self._policy)
        return capture_policy(self._policy, dynamic_batch=self._options.dynamic_batch)

    def program_for_trace(self, program: Program) -> Program:
        """The program for a batch size of 1."""
        return capture_policy(self._policy, dynamic_batch=False) if self._options.dynamic_batch else program

    def describe(self, program: Program, artifact: Artifact, backend: str) -> Contract:
        """Build the contract of the file."""
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
            given.on_stop,
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
        """Compare the file with the policy.

        Raises:
            VerificationError: If an output or a memory differs.
        """
        verify_against_policy(self._policy, data, program.random_outputs, program.precision)
