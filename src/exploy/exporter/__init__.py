"""The documented module paths of the exporter. Contains only re-exports. Needs the extra `exploy[export]`."""
