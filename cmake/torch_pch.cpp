// Holds the precompiled <torch/torch.h> that every torch folder reuses.
