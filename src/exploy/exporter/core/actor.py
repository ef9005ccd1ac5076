"""Exportable actors."""

from exploy.environment.actor import ExportableActor, add_actor_memory, make_exportable_actor

__all__ = ["ExportableActor", "add_actor_memory", "make_exportable_actor"]
