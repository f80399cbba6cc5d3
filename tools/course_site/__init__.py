"""The course as pages that anyone may read: chapters without answers, what one can do after each, search."""
