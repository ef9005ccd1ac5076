"""Classes that users implement or register: environments, actors, components."""
