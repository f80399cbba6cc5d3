"""A search index for Chinese without a dictionary of words: of every run of characters, each pair of neighbours.

Sphinx's own splits Chinese by a package that is not installed here, and without it finds Latin words alone. A page is found
that has every pair of what one looks for.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sphinx.search.zh import SearchChinese

RUNS = re.compile(r"[\u3400-\u9fff]+")


class Pairs(SearchChinese):
    """Pairs of Chinese characters; Latin words as Sphinx has them. The script in the browser splits what one types so, too."""

    language_name = "English"  # whose stemmer, in the script, it is: Sphinx asks for one of Chinese, which is not there
    js_splitter_code = r"""
var splitQuery = (query) =>
  (query.match(/[\u3400-\u9fff]+|\w+/g) || []).flatMap((run) =>
    run < "\u3400" || run.length < 2 ? [run] : [...run].slice(1).map((one, before) => run[before] + one)
  );
"""

    def split(self, input: str) -> list[str]:
        """The terms of a text, as Sphinx calls them."""
        latin = self.latin1_letters.findall(input)
        self.latin_terms.update(latin)
        return [*("".join(pair) for run in RUNS.findall(input) for pair in pairwise(run)), *latin]
