"""Commands on raters and rubers."""
