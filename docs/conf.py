# Sphinx's settings for the site that make site builds.
project = "libucxpool"
extensions = ["myst_parser", "breathe"]
# They are parts of the page host.md.
exclude_patterns = ["benchmarks/machine.md", "benchmarks/why.md"]
myst_heading_anchors = 4
html_theme = "furo"
html_show_copyright = False
breathe_default_project = "ucxpool"
breathe_domain_by_extension = {"h": "c"}
