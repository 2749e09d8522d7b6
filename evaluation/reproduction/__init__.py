"""The method's claims on real logs and real ratings, each beside a control that could refute it: `refaug reproduce`."""
