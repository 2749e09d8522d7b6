"""A client of refaug: how good a reply is, when many different replies would have been fine."""
