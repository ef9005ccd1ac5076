"""A cart-pole environment with a trained policy, to try out the exporter."""
