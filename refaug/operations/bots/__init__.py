"""What bots can be let do.

The main names:

- `reply_to_items.ReplyToItems`: bots as further systems of a test file
- `reply_to_items.ReplyOptions`: how they reply
- `reply_to_items.ReplyOptions.check`: the rules between the options.
"""
