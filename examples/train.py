"""Train a detector with Lightning alone, and encode two texts with its checkpoint: python train.py."""

import pytorch_lightning as pl

from gedbd import BugReports, DuplicateDetector

pl.seed_everything(0)
data = BugReports("demo", graph="dense", batch_size=16)  # or your tracker's export: BugReports("bugs.csv")
model = DuplicateDetector("minilm", lambda_text=0.5, margin=0.3, lr=2e-5)
trainer = pl.Trainer(max_epochs=1)
trainer.fit(model, data)
trainer.test(model, data)
trainer.save_checkpoint("detector.ckpt")
trained = DuplicateDetector.load_from_checkpoint("detector.ckpt")
print(trained.encode(["Crash on paste", "Printing is slow"]).shape)
