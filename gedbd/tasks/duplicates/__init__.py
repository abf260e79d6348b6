"""One LightningModule for each training task."""
