"""Chains of element-wise steps, fused into one loop over a batch without an object per element."""
