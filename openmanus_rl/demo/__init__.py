"""A small real training run, recorded with `openmanus_rl.init`: read `train.py` to see how a loop records itself."""
