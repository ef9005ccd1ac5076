"""The documented module paths of the exporter: re-exports, nothing else. Needs the extra `exploy[export]`."""
