"""What fulfils a plan's quantize actions. A backend never writes a file and never sees a kept tensor."""
