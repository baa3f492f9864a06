"""Images and volumes from files to tensors."""
