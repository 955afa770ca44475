"""Model families: one file each, speaking tensor names and no bits."""
