"""State that an export or a check may change and cannot restore."""

from exploy.live import object_graph
from exploy.live.iterators import is_bare_iterator, position


class OutOfReach:
    """Notes the state of live objects that cannot be restored: positions of iterators, and too many objects.

    Args:
        roots: Objects to start from, by the first name of their paths.
    """

    def __init__(self, roots: dict[str, object]):
        self._iterators: list[tuple[str, object, object]] = []
        objects = 0
        for attr_path, value in object_graph.walk(roots, closures=True):
            objects += 1
            if is_bare_iterator(type(value)):
                self._iterators.append((attr_path, value, position(value)))
        self.has_too_many_objects = objects >= object_graph.MAX_OBJECTS

    def advanced_iterators(self) -> list[str]:
        """Paths of the generators and iterators that were advanced since."""
        return [attr_path for attr_path, value, before in self._iterators if position(value) != before]

    def line(self) -> str | None:
        """What was changed and not restored, or may have been; None if there is nothing to say."""
        advanced = self.advanced_iterators()
        parts = []
        if advanced:
            parts.append(
                f"Could not be restored: the position of {', '.join(advanced)}. Make the iterators anew, or keep "
                "their values in a tensor."
            )
        if self.has_too_many_objects:
            parts.append(too_many_objects())
        return " ".join(parts) or None


def too_many_objects() -> str:
    """The message for object graphs that are too large."""
    return (
        f"More than {object_graph.MAX_OBJECTS:,} objects can be reached from the environment. Those beyond were "
        "neither looked at nor restored. Keep what the pipeline reads near the environment, and large data elsewhere."
    )
