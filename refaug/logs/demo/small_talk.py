"""Sentences for every topic: short reactions, repairs, goodbyes, and replies that fit everywhere a little.

Sentences of four words and more that others answer name the topic's {subject}, because pairs of answers to one
utterance are what the rater learns from; a long utterance that fits everywhere would teach it that anything goes.
"""

from __future__ import annotations

# At most three words: the utterances that have hundreds of different answers in every real log.
SHORT = (
    "Ok.",
    "Really?",
    "Oh no!",
    "I see.",
    "Sure.",
    "Hm, maybe.",
    "Right.",
    "Go on.",
    "Is that so?",
    "Fair enough.",
    "No way!",
    "Good point.",
)

# After a turn that belongs elsewhere.
REPAIRS = (
    "Is this the wrong chat? We were talking about {subject}.",
    "Sorry, what does that have to do with {subject}?",
    "I think you mixed up two chats, this one is about {subject}.",
    "You lost me there. Back to {subject}, please.",
    "That was meant for somebody else, I guess. I was still at {subject}.",
    "Pardon? My question was about {subject}.",
    "Funny, but I would rather hear your thoughts on {subject}.",
    "Wrong window, I suppose, because we had stopped at {subject}.",
    "How did we get from {subject} to that?",
    "Let us stay with {subject} for a moment, I am confused.",
)

# Only ever last turns, so nothing answers them.
GOODBYES = (
    "Thanks, talk to you soon.",
    "Bye for now!",
    "Have a nice evening.",
    "I have to go, take care.",
    "Good, that settles it then.",
    "See you around.",
    "Thank you very much for your help.",
    "All right, I will let you know.",
)

# Replies that fit everywhere a little are put together from a beginning and, where length asks for it, an end.
VAGUE_BEGINNINGS = (
    "I am not sure.",
    "That sounds nice.",
    "I don't know.",
    "That is hard to say.",
    "Yes, I think so too.",
    "Well, it depends.",
    "I would have to think about it.",
    "That is a good question.",
    "I am not sure, but that sounds nice.",
    "It is the same with me and {subject}, I think.",
    "I really don't know what to say to that.",
    "Yes, that is how it is with {subject}.",
    "I don't know much about {subject}.",
    "You know more about {subject} than I do.",
    "I have not thought about {subject} for a long time.",
    "It is always the same with {subject}.",
    "There is a lot to say about {subject}, I think.",
    "That is what people say about {subject}, and maybe it is true.",
    "I would not worry about {subject}.",
    "It is hard to say with {subject}.",
    "Oh, {subject} again.",
    "So it is about {subject}.",
    "I think {subject} is not for me.",
    "I would ask about {subject} on {day}.",
    "It will be all right with {subject} in the end.",
    "That may be so, or it may not.",
    "I have heard that before, and I think it is true.",
)
VAGUE_ENDS = (
    "Let me know.",
    "We will see.",
    "What do you think?",
    "It is up to you.",
    "That is all I can say about it.",
    "I hope it all goes well for you.",
    "Maybe you can ask somebody who knows about {subject}.",
    "But I am sure that you will find a way.",
    "I would do the same if I were you.",
    "You can always tell me more about {subject} on {day}.",
    "In the end it is only {subject}, and that is not the whole world.",
    "I will be there if you need me.",
    "It was like that before and it will be like that again.",
    "But then, that is only what I think, and I may be wrong.",
)
