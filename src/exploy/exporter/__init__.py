"""Export of environments and policies; needs the extra `exploy[export]`."""
