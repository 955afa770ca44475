"""The documentation: pages in Markdown, what writes the generated ones (`writing`), what runs them (`snippets`)."""
