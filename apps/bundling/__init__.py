"""A run's model as a MONAI Bundle, which runs without fedannot; and start weights from one."""
