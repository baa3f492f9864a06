"""A site's training: batches, augmentation, loop, losses, optimizers."""
