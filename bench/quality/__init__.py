"""What a scheme costs in quality, measured on a small trained checkpoint with transformers and vLLM."""
