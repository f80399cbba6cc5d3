# What Sphinx is told; the line above this one is written by `autograder site`, which copies this file.
author = copyright = ""
language = "en"
extensions = ["myst_nb"]
exclude_patterns = ["released"]
nb_execution_mode = "off"  # what is shown was executed before
nb_code_prompt_show = "Show its source"
nb_code_prompt_hide = "Hide its source"
nb_ipywidgets_js = {}  # nothing is loaded from elsewhere
nb_merge_streams = True
nb_render_error_lexer = "text"  # what a check says is a sentence, no traceback
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
smartquotes = False
html_theme = "furo"
html_title = project  # noqa: F821
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
html_domain_indices = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
