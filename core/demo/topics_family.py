"""What people say about family, feasts and animals: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

FAMILY = (
    Topic(
        name="birthday",
        subject="the birthday",
        slots={
            "gift": (
                "a chess set",
                "a woollen blanket",
                "a cookery course",
                "a bird house",
                "a watch",
                "a pair of slippers",
                "a jigsaw puzzle",
            ),
            "age": ("thirty", "forty", "fifty", "sixty", "seventy", "eighteen"),
        },
        openers=(
            Opener(
                says=("My {kin} turns {age} on {day}.", "On {day} my {kin} has a birthday, the big {age}."),
                replies=(
                    Reply(Intent.AGREE, "How nice, {age} is worth a real birthday party."),
                    Reply(
                        Intent.ASK,
                        "What does your {kin} wish for at {age}?",
                        "Only health and a bit of peace, so nothing I could wrap.",
                    ),
                    Reply(Intent.ADVISE, "Give your {kin} {gift}, at {age} people like something practical."),
                    Reply(Intent.TELL, "When I turned {age} all my friends sang under the window."),
                    Reply(Intent.JOKE, "At {age} one gets a cake with a fire permit for the candles."),
                    Reply(
                        Intent.DECLINE,
                        "Don't mention the {age}, your {kin} says it is only a birthday like the others.",
                    ),
                ),
            ),
            Opener(
                says=("I still have no present for my {kin}.", "What could I give my {kin} as a birthday present?"),
                replies=(
                    Reply(Intent.ADVISE, "How about {gift}, that makes almost everybody happy."),
                    Reply(
                        Intent.ASK,
                        "How much do you want to spend on the present?",
                        "About thirty, a little more if it must be.",
                    ),
                    Reply(Intent.AGREE, "I have no birthday present either, let's buy {gift} together."),
                    Reply(Intent.DECLINE, "Please not {gift}, your {kin} got that last year."),
                    Reply(Intent.TELL, "My {kin} was very pleased with {gift} and still uses it."),
                    Reply(Intent.JOKE, "Wrap yourself with a ribbon and ring the bell."),
                ),
            ),
            Opener(
                says=(
                    "Will you come to my birthday party on {day}?",
                    "I'm having a birthday party on {day}, will you be there?",
                ),
                replies=(
                    Reply(Intent.AGREE, "Of course, I would not miss your birthday for anything."),
                    Reply(Intent.DECLINE, "I'm so sorry, on {day} I'm away, but we celebrate your birthday later."),
                    Reply(
                        Intent.ASK,
                        "Shall I bring a salad or {gift} to your birthday?",
                        "Bring a salad, and no presents please.",
                    ),
                    Reply(Intent.ADVISE, "Tell us the motto of the birthday party, so we can dress up."),
                    Reply(Intent.JOKE, "I come for the birthday cake, you are a bonus."),
                    Reply(Intent.TELL, "I finish work at {time} on {day}, so I come to the party a bit later."),
                ),
            ),
            Opener(
                says=("I forgot my {kin}'s birthday.", "Yesterday was my {kin}'s birthday and I completely forgot it."),
                replies=(
                    Reply(Intent.ADVISE, "Call your {kin} at once and invite them to a belated birthday dinner."),
                    Reply(Intent.SYMPATHISE, "Oh dear, a forgotten birthday lies heavy on the stomach."),
                    Reply(Intent.TELL, "A late card with {gift} heals most forgotten birthdays."),
                    Reply(
                        Intent.ASK,
                        "Is your {kin} someone who takes a forgotten birthday badly?",
                        "Not with words, but with a long silence.",
                    ),
                    Reply(Intent.AGREE, "I forgot my own wedding day once, a birthday is nothing."),
                    Reply(Intent.JOKE, "Say you wanted to make the birthday last longer."),
                ),
            ),
            Opener(
                says=(
                    "We plan a surprise party for my {kin}.",
                    "The birthday of my {kin} will be a surprise party, keep it secret.",
                ),
                replies=(
                    Reply(Intent.AGREE, "A surprise, how exciting, my lips are sealed until {day}."),
                    Reply(
                        Intent.ASK,
                        "Who brings your {kin} to the surprise party without a word?",
                        "My brother says they go bowling.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Hide the cake next door, your {kin} always looks into the fridge before a birthday.",
                    ),
                    Reply(Intent.DECLINE, "Your {kin} hates surprises, I would warn them about the party."),
                    Reply(Intent.TELL, "At the last surprise party the guest of honour went to bed early."),
                    Reply(Intent.JOKE, "Nothing is as loud as thirty people whispering surprise."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Lovely, then the birthday table is full."),
            FollowUp(Intent.ASK, "I find that out before the birthday."),
            FollowUp(Intent.ADVISE, "Good idea, {gift} it is then."),
            FollowUp(Intent.DECLINE, "I see, then I think of another birthday present."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I write a card with many apologies."),
            FollowUp(Intent.JOKE, "Ha, the ribbon would have to be very long."),
            FollowUp(Intent.TELL, "That helps, I take it as an example for the birthday."),
        ),
        later=(
            "Someone has to blow up sixty balloons for the birthday.",
            "The candles on the cake burn down in a minute.",
            "There will be games and a speech by my {kin}.",
            "Wrapping paper with stars goes with {gift}.",
            "The best birthday is one with breakfast in bed.",
        ),
        closings=("See you at the birthday party on {day}!", "I go and order the birthday cake."),
    ),
    Topic(
        name="wedding",
        subject="the wedding",
        slots={
            "part": (
                "the rings",
                "the flowers",
                "the speech",
                "the band",
                "the seating plan",
                "the wedding cake",
                "the photographer",
            ),
        },
        openers=(
            Opener(
                says=("My {kin} is getting married in {month}.", "In {month} my {kin} has a wedding."),
                replies=(
                    Reply(Intent.AGREE, "What wonderful news, a wedding in {month} is so romantic."),
                    Reply(
                        Intent.ASK,
                        "Will it be a large wedding or only the family?",
                        "A hundred guests, and half of them are cousins.",
                    ),
                    Reply(Intent.SYMPATHISE, "You must be moved, it feels like yesterday that your {kin} was small."),
                    Reply(Intent.ADVISE, "Start early with {part}, for a wedding in {month} everybody is booked."),
                    Reply(Intent.JOKE, "Free cake and dancing, I have always liked your {kin}."),
                    Reply(Intent.TELL, "My wedding was in {month} too, it rained and nobody cared."),
                ),
            ),
            Opener(
                says=("What does one wear to a wedding?", "I have nothing to wear for the wedding in {month}."),
                replies=(
                    Reply(Intent.ADVISE, "Wear something light with a jacket, a wedding lasts until midnight."),
                    Reply(Intent.DECLINE, "Not white, at a wedding that belongs to the bride."),
                    Reply(Intent.TELL, "On the invitation to the wedding it says summer dress, so no tie."),
                    Reply(
                        Intent.ASK,
                        "Is the wedding in a church or outside?",
                        "In a barn with a meadow, heels would sink in.",
                    ),
                    Reply(Intent.AGREE, "I stand in front of my wardrobe too and hate each dress."),
                    Reply(Intent.JOKE, "Come as {part}, nobody else will wear that."),
                ),
            ),
            Opener(
                says=(
                    "I am responsible for {part} at the wedding.",
                    "They asked me to take care of {part} at the wedding.",
                ),
                replies=(
                    Reply(Intent.AGREE, "They chose well, {part} is in good hands with you."),
                    Reply(Intent.ADVISE, "Write a list for {part} and ring everybody a week before the wedding."),
                    Reply(
                        Intent.ASK,
                        "What exactly do you have to do for {part}?",
                        "Everything, and it has to be a secret.",
                    ),
                    Reply(Intent.SYMPATHISE, "That is a burden, if {part} fails the wedding is in tears."),
                    Reply(Intent.TELL, "At our wedding {part} came an hour late and it was the best story."),
                    Reply(Intent.JOKE, "I hope you lose {part} only in the film version."),
                ),
            ),
            Opener(
                says=("Should I bring my {kin} to the wedding?", "May I bring somebody with me to the wedding?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, bring your {kin}, at the wedding table we have a free chair."),
                    Reply(Intent.DECLINE, "The wedding is small, please come without your {kin}."),
                    Reply(Intent.ADVISE, "Ask the bride before {day}, then the seating plan is made."),
                    Reply(
                        Intent.ASK,
                        "Does your {kin} dance, at the wedding we lack dancers?",
                        "All night, nobody can stop it.",
                    ),
                    Reply(Intent.TELL, "The invitation to the wedding was for two persons."),
                    Reply(Intent.JOKE, "Bring your {kin}, but hide the wedding cake."),
                ),
            ),
            Opener(
                says=("The wedding has been cancelled.", "They have put off the wedding until {month}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "How sad, after all the work with {part}."),
                    Reply(
                        Intent.ASK,
                        "Is it put off, or won't there be a wedding at all?",
                        "Put off, because the bride broke her leg.",
                    ),
                    Reply(Intent.TELL, "Most halls give the money back when a wedding is moved."),
                    Reply(Intent.ADVISE, "Keep {part} ready, in {month} the wedding will take place for certain."),
                    Reply(Intent.AGREE, "I heard it as well, the whole family talks about the wedding."),
                    Reply(Intent.DECLINE, "I don't believe it, on {day} they were still choosing {part}."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "I tell the bride that you are happy about the wedding."),
            FollowUp(Intent.ASK, "I ask the couple about {part} and tell you."),
            FollowUp(Intent.ADVISE, "I do that long before the wedding."),
            FollowUp(Intent.DECLINE, "Then I change the plan for the wedding."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I need a handkerchief already."),
            FollowUp(Intent.JOKE, "Ha, the bride would faint."),
            FollowUp(Intent.TELL, "Thanks, that takes away my fear of the wedding."),
        ),
        later=(
            "The couple met in a queue for ice cream.",
            "{part} alone costs more than my car.",
            "The first dance was practised in our kitchen.",
            "The grandmother of the bride danced longest.",
            "In every wedding film somebody forgets {part}.",
        ),
        closings=("See you at the wedding, I will wear green!", "I have to see to {part} now, bye."),
    ),
    Topic(
        name="barbecue",
        subject="the barbecue",
        slots={
            "grill": (
                "the sweet corn",
                "the halloumi",
                "the marinated chicken",
                "the salmon",
                "the vegetable skewer",
                "the stuffed aubergine",
            ),
            "spotb": ("the garden", "the park", "the back yard", "the allotment", "the courtyard"),
        },
        openers=(
            Opener(
                says=(
                    "We are having a barbecue in {spotb} on {day}.",
                    "Come to our barbecue on {day}, it is in {spotb}.",
                ),
                replies=(
                    Reply(Intent.AGREE, "Thanks for the invitation, I will come to {spotb} and bring {grill}."),
                    Reply(
                        Intent.ASK,
                        "What should I bring to the barbecue, a salad or drinks?",
                        "A salad would be perfect, drinks are cold already.",
                    ),
                    Reply(Intent.DECLINE, "I can't come to the barbecue on {day}, I have a late shift."),
                    Reply(Intent.ADVISE, "Check whether a fire is allowed in {spotb}, it has been very dry."),
                    Reply(Intent.TELL, "On {day} it may rain, so take a tent for the barbecue along."),
                    Reply(Intent.JOKE, "I come for the barbecue and stay for the leftovers."),
                ),
            ),
            Opener(
                says=("The charcoal does not want to burn.", "I can't get the charcoal for {grill} to glow."),
                replies=(
                    Reply(Intent.ADVISE, "Stack the charcoal like a pyramid and put wood wool beneath."),
                    Reply(Intent.TELL, "Damp charcoal only smokes, it needs a dry place to be stored."),
                    Reply(
                        Intent.ASK,
                        "Did you use a chimney starter for the charcoal?",
                        "No, only matches and a lot of hope.",
                    ),
                    Reply(Intent.DECLINE, "Never pour spirit over the charcoal, that is really dangerous."),
                    Reply(Intent.SYMPATHISE, "And everybody stands there hungry, looking at the cold charcoal."),
                    Reply(Intent.JOKE, "Tell the guests that {grill} is served raw today."),
                ),
            ),
            Opener(
                says=("How long does it take to grill {grill}?", "When can I take {grill} off the fire?"),
                replies=(
                    Reply(Intent.TELL, "{grill} needs about twelve minutes, turn it halfway."),
                    Reply(Intent.ADVISE, "Put {grill} at the edge of the fire, where the heat is gentle."),
                    Reply(
                        Intent.ASK,
                        "Is there still a flame or only white embers?",
                        "Only white embers with a bit of smoke.",
                    ),
                    Reply(Intent.DECLINE, "Don't look at the clock, press {grill} with the tongs and feel."),
                    Reply(Intent.JOKE, "Until the dog sits down in front of {grill}."),
                    Reply(Intent.AGREE, "I was about to ask that too, mine is black outside and raw inside."),
                ),
            ),
            Opener(
                says=("There will be vegetarians at the barbecue.", "Half of the barbecue guests eat no meat."),
                replies=(
                    Reply(Intent.AGREE, "No problem, I marinate {grill} and plenty of courgettes for the barbecue."),
                    Reply(Intent.ADVISE, "Keep one half of the grate free of meat, vegetarians like that."),
                    Reply(
                        Intent.ASK,
                        "Do the vegetarians eat cheese or are they vegan?",
                        "Two of them are vegan, the rest love cheese.",
                    ),
                    Reply(Intent.TELL, "Stuffed mushrooms and corn are the best thing for vegetarians on the grill."),
                    Reply(Intent.JOKE, "More sausages for us then."),
                    Reply(Intent.DECLINE, "I had planned only meat, we need to change the shopping for the barbecue."),
                ),
            ),
            Opener(
                says=(
                    "The neighbours complained about the smoke.",
                    "The smoke of our barbecue went straight to the neighbours.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Invite the neighbours, then the smoke smells much better to them."),
                    Reply(Intent.SYMPATHISE, "What a pity, one barbecue in summer should not be a crime."),
                    Reply(Intent.TELL, "By the house rules you may light the barbecue twice a month."),
                    Reply(
                        Intent.ASK,
                        "Did you grill on the balcony or down in {spotb}?",
                        "On the balcony, the wind came from the wrong side.",
                    ),
                    Reply(Intent.AGREE, "Ours complained as well, now we use an electric grill without smoke."),
                    Reply(Intent.JOKE, "Send {grill} over as a peace offering."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Great, the more people at the barbecue the better."),
            FollowUp(Intent.ASK, "I have to look at the grill and the shopping first."),
            FollowUp(Intent.ADVISE, "I will try it when I light the charcoal."),
            FollowUp(Intent.DECLINE, "What a shame, we keep a plate of {grill} for you."),
            FollowUp(Intent.SYMPATHISE, "Thanks, we saved the evening with bread and dips."),
            FollowUp(Intent.JOKE, "Ha, the dog is faster than all the guests."),
            FollowUp(Intent.TELL, "Then I start the fire an hour before the guests come."),
        ),
        later=(
            "The garlic bread is always gone before {grill} is ready.",
            "Someone has to bring a torch, {spotb} gets dark at nine.",
            "My {kin} guards the tongs and lets no one near the grill.",
            "Wasps love lemonade, so we need lids for the glasses.",
            "After the barbecue I smell of smoke for two days.",
        ),
        closings=("See you in {spotb}, bring your appetite!", "I have to turn {grill} now, until later."),
    ),
    Topic(
        name="dog",
        subject="the dog",
        slots={
            "trick": (
                "to sit",
                "to stay",
                "to give paw",
                "to fetch the newspaper",
                "to walk on the lead",
                "to roll over",
            ),
            "eaten": (
                "my slipper",
                "the sofa cushion",
                "a whole cake",
                "the remote control",
                "my homework",
                "the newspaper",
            ),
        },
        openers=(
            Opener(
                says=("My dog has eaten {eaten}.", "The dog chewed up {eaten} on {day}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Oh no, poor you, {eaten} is ruined and the dog looks innocent."),
                    Reply(Intent.ADVISE, "Watch whether the dog drinks and eats, otherwise call the vet."),
                    Reply(
                        Intent.ASK,
                        "Was the dog alone at home when that happened?",
                        "For two hours only, with a full bowl.",
                    ),
                    Reply(Intent.TELL, "Young dogs chew everything when they are bored, give him a bone."),
                    Reply(Intent.AGREE, "My dog does that too, on {day} it was a leather shoe."),
                    Reply(Intent.JOKE, "At least the dog has taste."),
                ),
            ),
            Opener(
                says=("I'm teaching my dog {trick}.", "How do I teach my dog {trick}?"),
                replies=(
                    Reply(Intent.ADVISE, "Practise with the dog for five minutes and give a treat each time."),
                    Reply(Intent.TELL, "A dog needs about a month {trick} without a treat."),
                    Reply(Intent.ASK, "Does your dog obey you in other things?", "Only when there is cheese."),
                    Reply(Intent.AGREE, "My dog learns {trick} as well, we could train together."),
                    Reply(Intent.DECLINE, "Don't force the dog {trick}, he is still too young."),
                    Reply(Intent.JOKE, "My dog has taught me {trick}."),
                ),
            ),
            Opener(
                says=("Could you walk my dog on {day}?", "I'm looking for somebody to walk the dog on {day}."),
                replies=(
                    Reply(Intent.AGREE, "Gladly, I walk the dog in the park until {time}."),
                    Reply(Intent.DECLINE, "Sorry, I'm allergic to dogs, but my {kin} loves them."),
                    Reply(
                        Intent.ASK,
                        "Does the dog pull on the lead or walk beside you?",
                        "He pulls until he sees a duck, then he flies.",
                    ),
                    Reply(Intent.ADVISE, "Bring the dog over with his lead and a few treats."),
                    Reply(Intent.TELL, "On {day} I have time for the dog only in the morning."),
                    Reply(Intent.JOKE, "If the dog walks me home afterwards, why not."),
                ),
            ),
            Opener(
                says=("My dog barks at everyone.", "The dog barks at each cyclist who passes."),
                replies=(
                    Reply(Intent.ADVISE, "Let the dog sit and look at you before he starts to bark."),
                    Reply(Intent.SYMPATHISE, "That barking is tiring, for the dog as well."),
                    Reply(
                        Intent.ASK,
                        "Does the dog bark from fear or from joy?",
                        "From joy, I think, his tail is wagging.",
                    ),
                    Reply(Intent.TELL, "In the dog school they practise barking dogs with bicycles."),
                    Reply(Intent.AGREE, "Mine barks at the hoover and at balloons."),
                    Reply(Intent.DECLINE, "A dog has to bark, that's his language."),
                ),
            ),
            Opener(
                says=("Should we get a dog?", "My {kin} wants a dog and I'm not sure."),
                replies=(
                    Reply(Intent.AGREE, "Yes, get a dog, you will be outside every day."),
                    Reply(Intent.DECLINE, "Better not, a dog can't be alone for eight hours."),
                    Reply(Intent.ADVISE, "Borrow a dog from the animal shelter for a weekend first."),
                    Reply(
                        Intent.ASK,
                        "Who would walk the dog in the rain at six in the morning?",
                        "Everybody promises, so it will be me.",
                    ),
                    Reply(Intent.TELL, "A dog costs about sixty a month for food and the vet."),
                    Reply(Intent.JOKE, "Get a dog, then you needn't sweep up crumbs any more."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then our dogs should meet on {day}."),
            FollowUp(Intent.ASK, "I watch the dog and tell you."),
            FollowUp(Intent.ADVISE, "I try that with a piece of cheese for the dog."),
            FollowUp(Intent.DECLINE, "Then the dog has to wait for somebody else."),
            FollowUp(Intent.SYMPATHISE, "Thanks, the dog looks at me with guilty eyes."),
            FollowUp(Intent.JOKE, "Ha, the dog wagged his tail at that joke."),
            FollowUp(Intent.TELL, "Good to know, I ask at the dog school."),
        ),
        later=(
            "The dog sleeps on my feet each night.",
            "A wet dog smells through the whole flat.",
            "He buried his bone in the flower pot.",
            "In the park there are more dogs than people.",
            "The vet says that my dog is too fat.",
        ),
        closings=("The dog stands at the door, we have to go out!", "Give the dog a pat from me."),
    ),
    Topic(
        name="cat",
        subject="the cat",
        slots={
            "perch": (
                "the keyboard",
                "the wardrobe",
                "the washing basket",
                "the windowsill",
                "the bread box",
                "my clean coat",
            ),
        },
        openers=(
            Opener(
                says=("My cat has not come home since {day}.", "The cat has been missing since {day}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "You must be so worried, a missing cat breaks one's heart."),
                    Reply(Intent.ADVISE, "Look in the cellars and garages, cats get locked in there."),
                    Reply(Intent.ASK, "Does the cat have a chip or a collar?", "A chip, and a white spot on the nose."),
                    Reply(Intent.TELL, "My cat was away for nine days and came back fat."),
                    Reply(Intent.AGREE, "Our cat is missing too, perhaps they left together."),
                    Reply(Intent.JOKE, "She may have opened a hotel for mice."),
                ),
            ),
            Opener(
                says=("The cat always lies on {perch}.", "Why does the cat have to sleep on {perch}?"),
                replies=(
                    Reply(Intent.TELL, "Cats love {perch} because it is warm and smells of you."),
                    Reply(Intent.ADVISE, "Put a box with a blanket beside {perch}, no cat can resist."),
                    Reply(Intent.AGREE, "Mine too, {perch} belongs to the cat and I may look at it."),
                    Reply(
                        Intent.ASK,
                        "What happens when you carry the cat away from {perch}?",
                        "She is back before I have sat down.",
                    ),
                    Reply(Intent.DECLINE, "Let the cat lie there, {perch} looks better with her."),
                    Reply(Intent.JOKE, "You live with the cat, not the other way round."),
                ),
            ),
            Opener(
                says=("My cat won't eat the new food.", "The cat turns her nose up at the new food."),
                replies=(
                    Reply(Intent.ADVISE, "Mix the new cat food with the old, a little more each day."),
                    Reply(
                        Intent.ASK,
                        "Is the cat drinking, or does she leave the water as well?",
                        "She drinks from the tap, nothing else.",
                    ),
                    Reply(Intent.TELL, "My cat eats only when the bowl stands on {perch}."),
                    Reply(Intent.DECLINE, "Don't change the food so often, cats hate what is new."),
                    Reply(Intent.AGREE, "Ours refused it as well, the hedgehog in the garden was happy."),
                    Reply(Intent.JOKE, "Try the food yourself and make a happy face."),
                ),
            ),
            Opener(
                says=(
                    "I have to take the cat to the vet on {day}.",
                    "How do I get the cat into the basket for the vet?",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Leave the basket open for days and feed the cat in it."),
                    Reply(Intent.SYMPATHISE, "Poor cat and poor arms, I still have scratches from the vet."),
                    Reply(Intent.ASK, "Is it for an injection, or is the cat ill?", "Only the yearly injection."),
                    Reply(Intent.TELL, "The vet at the bridge comes to the house for cats."),
                    Reply(Intent.AGREE, "My cat smells the vet two days ahead and hides behind {perch}."),
                    Reply(Intent.JOKE, "Go to the vet without the cat and describe her."),
                ),
            ),
            Opener(
                says=(
                    "The cat brought a mouse into the bedroom.",
                    "There is a living mouse in my flat because of the cat.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Put a rubber boot on the floor, the mouse runs into it by itself."),
                    Reply(Intent.SYMPATHISE, "Brr, a mouse in the bedroom, I would sleep in the bath."),
                    Reply(Intent.TELL, "The cat wants to give you the mouse as a present."),
                    Reply(
                        Intent.ASK,
                        "Did the mouse hide under the bed?",
                        "Under {perch}, and the cat has lost interest.",
                    ),
                    Reply(Intent.AGREE, "Mine brings a mouse each night, I have a net beside the bed."),
                    Reply(Intent.JOKE, "Say thank you to the cat and set a place for the mouse."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Cats are all the same, it seems."),
            FollowUp(Intent.ASK, "I watch the cat today and tell you."),
            FollowUp(Intent.ADVISE, "I try that tonight, the cat is just looking at me."),
            FollowUp(Intent.DECLINE, "Then I leave the cat in peace."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I put a bowl of milk outside for the cat."),
            FollowUp(Intent.JOKE, "Ha, the cat did not find that funny."),
            FollowUp(Intent.TELL, "I did not know that about cats."),
        ),
        later=(
            "At five in the morning the cat wants breakfast.",
            "The cat ignores the expensive scratching post.",
            "She purrs louder than the fridge.",
            "The hair of the cat is on all my black trousers.",
            "The cat jumped from {perch} onto my shoulder.",
        ),
        closings=("The cat is scratching at the door, bye.", "A stroke for the cat, if she allows it."),
    ),
)
