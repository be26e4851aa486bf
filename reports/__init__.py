"""Reports: read results from MLflow, compare them, and write Markdown, pages, figures and tables."""
