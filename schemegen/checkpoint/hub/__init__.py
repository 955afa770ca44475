"""Models on the Hugging Face Hub: headers by ranged requests, files into the Hub client's own cache.

huggingface_hub brings addresses, token, session, errors and cache layout. Files are streamed here and not by its own
download, which throws an interrupted file away and begins again.
"""
