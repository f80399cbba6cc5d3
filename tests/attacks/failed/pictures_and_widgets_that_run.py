"""Shows SVG, widgets, frames and MIME types of its own, each with a script for who reads the feedback."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    r"""
from IPython.display import SVG, IFrame, Markdown, display

EVIL = "alert('across-was-here')"
svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload=\"{EVIL}\"><script>{EVIL}</script><animate onbegin=\"{EVIL}\"/>"
display(SVG(data=svg + "</svg>"))
display({"application/vnd.jupyter.widget-view+json": {"model_id": EVIL, "version_major": 2}}, raw=True)
display({"application/javascript": EVIL, "text/html": f"<iframe srcdoc='<script>{EVIL}</script>'></iframe>"}, raw=True)
display({"text/html": f"<details open ontoggle=\"{EVIL}\"><body onload={EVIL}><math><mtext></form>"}, raw=True)
display({"text/latex": r"$\href{javascript:alert(1)}{x}$ \require{html}", "text/markdown": f"[x](javascript:{EVIL})"}, raw=True)
display(Markdown(f"<img src=x onerror=\"{EVIL}\">"), IFrame("javascript:alert(1)", 1, 1))
display({"text/vnd.mermaid": f"graph TD; a[\"<img src=x onerror={EVIL}>\"]", "image/png": EVIL}, raw=True)


def where(tensor):
    return svg
""",
)
