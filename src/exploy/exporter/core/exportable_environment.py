"""The interface of an exportable environment."""

from exploy.environment.exportable_environment import ExportableEnvironment

__all__ = ["ExportableEnvironment"]
