"""What users implement and register: environments, actors, components."""
