"""A cart-pole with a trained policy: an environment to try the exporter on."""
