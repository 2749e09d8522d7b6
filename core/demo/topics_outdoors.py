"""What people say about the open air: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

OUTDOORS = (
    Topic(
        name="weather",
        subject="the weather",
        slots={
            "sky": (
                "a thunderstorm",
                "heavy rain",
                "thick fog",
                "a snow shower",
                "strong wind",
                "hail",
                "drizzle",
                "a heatwave",
            ),
            "plan": (
                "the picnic",
                "the bike ride",
                "the flea market",
                "the garden party",
                "the boat trip",
                "the street fair",
            ),
        },
        openers=(
            Opener(
                says=("The forecast promises {sky} for {day}.", "They say we get {sky} on {day}."),
                replies=(
                    Reply(Intent.AGREE, "I saw that forecast too, {sky} all {day}, so I moved my plans indoors."),
                    Reply(
                        Intent.ASK,
                        "Does the forecast say how long {sky} will last on {day}?",
                        "Until the late afternoon, and then the clouds should clear.",
                    ),
                    Reply(Intent.ADVISE, "Keep a raincoat in the bag, with {sky} on {day} you will be glad of it."),
                    Reply(
                        Intent.DECLINE,
                        "My weather app shows clear skies for {day}, so I don't believe in {sky} yet.",
                    ),
                    Reply(Intent.JOKE, "Wonderful, {sky} on {day}, exactly when I washed all my windows."),
                    Reply(Intent.TELL, "The radio issued a warning about {sky}, mostly for the coast and the hills."),
                    Reply(Intent.SYMPATHISE, "Oh dear, {sky} again, and you had been looking forward to a dry {day}."),
                ),
            ),
            Opener(
                says=("Do I need an umbrella on {day}?", "Should I take an umbrella with me on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, take the big umbrella, the clouds over the hills look dark."),
                    Reply(Intent.DECLINE, "No umbrella needed, {day} stays dry and only gets a bit windy."),
                    Reply(
                        Intent.ADVISE,
                        "Better a hooded jacket than an umbrella, the wind on {day} would turn it inside out.",
                    ),
                    Reply(
                        Intent.ASK,
                        "Will you be outside for long on {day}, or only between the bus and the door?",
                        "I walk about half an hour, so I would be soaked without an umbrella.",
                    ),
                    Reply(Intent.JOKE, "If you carry an umbrella it never rains, so please do it for all of us."),
                    Reply(
                        Intent.TELL,
                        "The rain radar shows two short showers on {day}, one at lunch and one at {time}.",
                    ),
                ),
            ),
            Opener(
                says=("Will {plan} be cancelled if we get {sky}?", "What happens to {plan} if there is {sky}?"),
                replies=(
                    Reply(Intent.TELL, "With {sky} they move {plan} into the town hall, it says so on the poster."),
                    Reply(Intent.AGREE, "Probably cancelled, nobody enjoys {plan} in {sky}."),
                    Reply(Intent.DECLINE, "Not at all, {plan} goes ahead in any weather, only the music is left out."),
                    Reply(
                        Intent.ADVISE,
                        "Call the organisers on {day} morning, they decide about {plan} two hours before.",
                    ),
                    Reply(
                        Intent.ASK,
                        "Who is organising {plan} this year, so we can ask them?",
                        "The same club as last year, their number is on the leaflet.",
                    ),
                    Reply(Intent.SYMPATHISE, "I hope not, you have been preparing {plan} for weeks."),
                ),
            ),
            Opener(
                says=("It is far too hot in my flat since {day}.", "My flat has been like an oven since {day}."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Close the shutters in the morning and open every window at night, that cools the flat.",
                    ),
                    Reply(Intent.SYMPATHISE, "Poor you, a hot flat under the roof makes it impossible to sleep."),
                    Reply(Intent.AGREE, "Mine too, thirty degrees in the bedroom since {day}, even at midnight."),
                    Reply(
                        Intent.ASK,
                        "Do you have a fan, or should I lend you my old one?",
                        "A fan would be great, I only have a newspaper to wave.",
                    ),
                    Reply(Intent.JOKE, "Then fry an egg on the windowsill and save the gas."),
                    Reply(Intent.TELL, "It cools down on {day} evening, a front with fresh air is coming."),
                ),
            ),
            Opener(
                says=("I love the first snow of the year.", "The first snow of the year makes me so happy."),
                replies=(
                    Reply(Intent.AGREE, "Me too, the street goes quiet and the whole town looks clean in the snow."),
                    Reply(
                        Intent.DECLINE,
                        "I don't, the snow means scraping the car and shovelling the path before work.",
                    ),
                    Reply(
                        Intent.ASK,
                        "Did the snow stay on the ground where you live?",
                        "Yes, about a hand deep, enough for a small snowman.",
                    ),
                    Reply(Intent.ADVISE, "Go up to the park before noon, the snow there is still untouched."),
                    Reply(Intent.JOKE, "You love the snow because you don't own a shovel."),
                    Reply(Intent.TELL, "They expect another ten centimetres of snow on {day}."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Good that you see the sky the same way, then we plan for rain."),
            FollowUp(Intent.ASK, "Hard to say, I will check the forecast once more before I go out."),
            FollowUp(Intent.ADVISE, "Thanks for the tip, I will pack for bad weather then."),
            FollowUp(Intent.DECLINE, "I hope your forecast is right and my dark clouds are wrong."),
            FollowUp(Intent.SYMPATHISE, "Thank you, a bit of sunshine on {day} would cheer me up."),
            FollowUp(Intent.JOKE, "Ha, the weather does follow your washing days."),
            FollowUp(Intent.TELL, "Then I will watch the rain radar until {day}."),
            FollowUp(Intent.TELL, "Useful to know, so the worst weather comes before the evening."),
        ),
        later=(
            "Anyway, after this spell of weather comes sunshine, the barometer is rising.",
            "The temperature is supposed to drop by ten degrees at the start of the week.",
            "In spring the weather changes every hour, layers of clothing help.",
            "My knee can feel a change in the weather better than any forecast.",
            "If the clouds break, we could watch the sunset from the hill.",
        ),
        closings=("Stay dry, and let me know if the weather turns.", "Enjoy the sunshine while it lasts!"),
    ),
    Topic(
        name="gardening",
        subject="the garden",
        slots={
            "plant": ("tomatoes", "roses", "courgettes", "strawberries", "lettuces", "beans", "sunflowers", "dahlias"),
            "pest": ("slugs", "aphids", "snails", "pigeons", "caterpillars", "voles"),
        },
        openers=(
            Opener(
                says=("The {pest} are eating all my {plant}.", "My {plant} are full of {pest} again."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Go out at dusk and collect the {pest} by hand before they reach the {plant}.",
                    ),
                    Reply(Intent.SYMPATHISE, "That hurts, you raised those {plant} from seed on the windowsill."),
                    Reply(
                        Intent.ASK,
                        "Have you tried a net over the {plant}, or coffee grounds around them?",
                        "Only eggshells so far, and they climb right over them.",
                    ),
                    Reply(Intent.AGREE, "Here too, the {pest} took every leaf of my {plant} in one night."),
                    Reply(Intent.TELL, "Marigolds between the {plant} keep most {pest} away, at least in my bed."),
                    Reply(Intent.JOKE, "At least the {pest} have good taste, they leave the weeds alone."),
                ),
            ),
            Opener(
                says=("When should I plant {plant} outside?", "Is it too early to put my {plant} in the ground?"),
                replies=(
                    Reply(Intent.TELL, "Wait until the middle of May, one night of frost kills young {plant}."),
                    Reply(Intent.DECLINE, "Too early, the soil is still cold and {plant} would just sit there."),
                    Reply(Intent.ADVISE, "Put the {plant} on the balcony during the day first, so they harden."),
                    Reply(
                        Intent.ASK,
                        "How warm does it get at night in your garden?",
                        "About six degrees, sometimes less near the hedge.",
                    ),
                    Reply(Intent.AGREE, "Go ahead with the {plant}, the last frost is over and the ground is soft."),
                    Reply(Intent.JOKE, "My {plant} grow best when I forget where I planted them."),
                ),
            ),
            Opener(
                says=(
                    "Would you water my {plant} while I am away in {month}?",
                    "I am away in {month}, who could water my {plant}?",
                ),
                replies=(
                    Reply(Intent.AGREE, "Gladly, I pass your gate each evening and will water the {plant}."),
                    Reply(
                        Intent.ASK,
                        "How often do the {plant} need water, and where is the can?",
                        "Every second evening, the can stands behind the shed.",
                    ),
                    Reply(Intent.DECLINE, "Sorry, in {month} I am away too, but my {kin} could water the {plant}."),
                    Reply(Intent.ADVISE, "Bury a bottle with small holes beside the {plant}, it waters them for days."),
                    Reply(Intent.TELL, "I have time until the end of {month}, after that somebody else must water."),
                    Reply(Intent.JOKE, "I can water the {plant}, but I cannot promise not to eat them."),
                ),
            ),
            Opener(
                says=("I have far too many {plant} this year.", "Do you need {plant}? My garden is overflowing."),
                replies=(
                    Reply(Intent.AGREE, "Yes please, I would take a full basket of {plant} on {day}."),
                    Reply(Intent.DECLINE, "Thank you, but my own {plant} are already taking over the kitchen."),
                    Reply(Intent.ADVISE, "Put a box of {plant} at the gate with a sign, they will be gone by {day}."),
                    Reply(Intent.JOKE, "That is what you get for planting {plant} out of winter boredom."),
                    Reply(
                        Intent.ASK,
                        "Are the {plant} ready to pick, or do they need another week?",
                        "Ready now, some are even past their best.",
                    ),
                    Reply(Intent.TELL, "The kitchen at the school is happy about spare {plant}."),
                ),
            ),
            Opener(
                says=("The lawn is yellow and full of moss.", "My lawn looks terrible, yellow and mossy."),
                replies=(
                    Reply(Intent.ADVISE, "Rake the moss out, sow new grass and keep the lawn damp for two weeks."),
                    Reply(Intent.TELL, "Moss in the lawn shows that the soil is sour, a bit of lime helps."),
                    Reply(
                        Intent.ASK,
                        "Does the sun ever reach that part of the lawn?",
                        "Only until noon, then the big tree shades the grass.",
                    ),
                    Reply(Intent.DECLINE, "Leave the moss, it is soft, green in winter and needs no mowing."),
                    Reply(Intent.SYMPATHISE, "A pity, the lawn was your pride last summer."),
                    Reply(Intent.AGREE, "Mine is yellow as well, the dry weeks burnt the grass."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Good to hear that your garden has the same problem."),
            FollowUp(Intent.ASK, "I will look at the soil in the garden tonight and tell you."),
            FollowUp(Intent.ADVISE, "I will try it on one bed first, before the {plant} suffer."),
            FollowUp(Intent.DECLINE, "I see, then I ask the allotment club about the {plant}."),
            FollowUp(Intent.SYMPATHISE, "Thanks, there are still seeds left for a second round of {plant}."),
            FollowUp(Intent.JOKE, "Ha, then I plant some {plant} just for fun."),
            FollowUp(Intent.TELL, "That explains why the {plant} look so sad in that corner."),
            FollowUp(Intent.TELL, "Then the garden gets a free {day} for digging."),
        ),
        later=(
            "The compost heap is finally warm, the {plant} will love it.",
            "A rain barrel next to the shed saves a lot of carrying.",
            "In {month} the whole garden smells of flowers and cut grass.",
            "I swap seeds with the neighbours, last time I got {plant}.",
            "My back hurts from weeding, but the beds look tidy now.",
        ),
        closings=(
            "Back to the weeds, see you over the hedge!",
            "Good luck with the {plant}, send a photo when they bloom.",
        ),
    ),
    Topic(
        name="camping",
        subject="the camping trip",
        slots={
            "gear": (
                "the tent",
                "the air mattress",
                "the gas cooker",
                "the big sleeping bag",
                "the lantern",
                "the folding table",
            ),
            "camp": (
                "the lake",
                "the old mill",
                "the beach",
                "the meadow by the river",
                "the quarry",
                "the forest edge",
            ),
        },
        openers=(
            Opener(
                says=("We go camping at {camp} on {day}.", "On {day} we are off to {camp} with a tent."),
                replies=(
                    Reply(Intent.AGREE, "Great, camping at {camp} is the best, you hear owls at night."),
                    Reply(
                        Intent.ASK,
                        "Who brings {gear} to {camp}, you or your {kin}?",
                        "My {kin} has {gear} in the garage.",
                    ),
                    Reply(Intent.ADVISE, "Pitch the tent at {camp} before dark and not under a tree."),
                    Reply(Intent.DECLINE, "Camping is nothing for me, I need a shower and a door."),
                    Reply(Intent.JOKE, "The mosquitoes at {camp} are already sharpening their knives."),
                    Reply(Intent.TELL, "The camp site at {camp} closes its gate at {time}."),
                ),
            ),
            Opener(
                says=("May I borrow {gear} for a camping weekend?", "Could you lend me {gear} from {day} on?"),
                replies=(
                    Reply(Intent.AGREE, "Sure, {gear} is in my cellar, only dry it before you pack it up."),
                    Reply(Intent.DECLINE, "I lent {gear} to my {kin}, who comes back in {month}."),
                    Reply(
                        Intent.ASK,
                        "For how many nights of camping do you need {gear}?",
                        "Just two nights, from {day}.",
                    ),
                    Reply(Intent.ADVISE, "Check {gear} at home first, something is always missing."),
                    Reply(Intent.TELL, "You can rent {gear} at the camp site for little money."),
                    Reply(Intent.JOKE, "I lend you {gear} if you promise not to bring back the spiders."),
                ),
            ),
            Opener(
                says=("It rained into our tent all night.", "Everything in our tent is wet."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Oh no, a wet sleeping bag at night is a misery."),
                    Reply(Intent.ADVISE, "Dig a small ditch around the tent and hang the things in the wash house."),
                    Reply(
                        Intent.ASK,
                        "Did the rain come through the roof of the tent or from below?",
                        "From below, we camped in a hollow.",
                    ),
                    Reply(Intent.TELL, "A wet tent needs new spray on the seams."),
                    Reply(Intent.AGREE, "Ours leaked too, we slept in the car."),
                    Reply(Intent.JOKE, "Now you have a water bed at {camp}."),
                ),
            ),
            Opener(
                says=("How do you cook when you are camping?", "What do you eat on a camping trip at {camp}?"),
                replies=(
                    Reply(Intent.TELL, "We cook noodles on the gas cooker, and in the morning there is porridge."),
                    Reply(Intent.ADVISE, "Pre-cook a stew at home, at {camp} you only have to warm it up."),
                    Reply(Intent.DECLINE, "We don't cook at all, the snack bar at {camp} has good chips."),
                    Reply(Intent.ASK, "Is an open fire allowed at {camp}?", "Only in the stone ring by the water."),
                    Reply(Intent.AGREE, "I wonder too, last time we lived on biscuits at {camp}."),
                    Reply(Intent.JOKE, "Everything tastes of smoke and sand, that is called camping cuisine."),
                ),
            ),
            Opener(
                says=("I heard an animal outside the tent.", "Something was scratching at our tent last night."),
                replies=(
                    Reply(Intent.TELL, "That was probably a hedgehog, they visit every tent at {camp}."),
                    Reply(Intent.ADVISE, "Keep the food in the car, then no animal comes to the tent."),
                    Reply(Intent.SYMPATHISE, "I would not have slept a minute with that scratching."),
                    Reply(
                        Intent.ASK,
                        "Was the animal large, or could it have been a mouse?",
                        "It breathed like something large.",
                    ),
                    Reply(Intent.AGREE, "We heard it too, it stole a sausage from our table."),
                    Reply(Intent.JOKE, "It only wanted to ask how to pitch {gear}."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then {camp} will be full of nice people."),
            FollowUp(Intent.ASK, "I have to look into the garage for {gear}."),
            FollowUp(Intent.ADVISE, "I put that on the camping list."),
            FollowUp(Intent.DECLINE, "Alright, then we buy {gear} ourselves."),
            FollowUp(Intent.SYMPATHISE, "Thanks, everything is hanging in the sun now."),
            FollowUp(Intent.JOKE, "Ha, I put a sign on the tent, no animals please."),
            FollowUp(Intent.TELL, "So {gear} is the important thing for {camp}."),
        ),
        later=(
            "The stars over {camp} were so bright that I stayed up.",
            "One always forgets the tin opener.",
            "A swim before breakfast is the best of camping.",
            "{gear} weighs more than it looks.",
            "Children sleep better in a tent than at home.",
        ),
        closings=("See you at {camp}, follow the smell of coffee!", "I go and pack {gear} now."),
    ),
    Topic(
        name="hiking",
        subject="the hike",
        slots={
            "peak": (
                "the ridge",
                "the waterfall",
                "the castle ruin",
                "the summit cross",
                "the mountain lake",
                "the gorge",
            ),
            "kit": ("a walking stick", "a head lamp", "a map", "a thermos flask", "a rain cape"),
        },
        openers=(
            Opener(
                says=("Let's hike to {peak} on {day}.", "Do you want to come on a hike to {peak} on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "I'd love to, the hike to {peak} is beautiful in {month}."),
                    Reply(Intent.ASK, "How long does the hike to {peak} take?", "Three hours up and two hours down."),
                    Reply(Intent.DECLINE, "On {day} I can't hike, my {kin} visits us."),
                    Reply(Intent.ADVISE, "Take {kit}, the last part below {peak} is steep."),
                    Reply(Intent.TELL, "The path to {peak} is marked with red and white dots."),
                    Reply(Intent.JOKE, "I carry the food and you carry me to {peak}."),
                ),
            ),
            Opener(
                says=(
                    "I got lost on the way to {peak}.",
                    "We took the wrong path to {peak} and came down in another valley.",
                ),
                replies=(
                    Reply(Intent.SYMPATHISE, "That must have been scary, with fog on the way to {peak}."),
                    Reply(Intent.ADVISE, "Take {kit} next time and turn back when the marks stop."),
                    Reply(
                        Intent.ASK,
                        "Did you have a map, or only the phone?",
                        "Only the phone, and its battery was empty.",
                    ),
                    Reply(Intent.TELL, "At the fork behind the barn everybody goes wrong, keep left to {peak}."),
                    Reply(Intent.AGREE, "We got lost there too, a shepherd showed us the path."),
                    Reply(Intent.JOKE, "You discovered a new route, name it after yourself."),
                ),
            ),
            Opener(
                says=("Do I really need {kit} for {peak}?", "Is {kit} necessary for the hike to {peak}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, without {kit} the way to {peak} is no pleasure."),
                    Reply(Intent.DECLINE, "No, the path to {peak} is so easy that children run up."),
                    Reply(Intent.ADVISE, "Borrow {kit} from the alpine club, it costs next to nothing."),
                    Reply(Intent.TELL, "After rain the rocks near {peak} are slippery, {kit} helps."),
                    Reply(Intent.ASK, "Have you got other shoes with a firm sole?", "Only sports shoes with a hole."),
                    Reply(Intent.JOKE, "For photos you need {kit}, for walking only feet."),
                ),
            ),
            Opener(
                says=("My legs hurt so much after the hike.", "Since the hike to {peak} I can't walk down stairs."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Sore legs after {peak}, I feel for you on every step."),
                    Reply(Intent.ADVISE, "Take a warm bath and walk a little, that loosens the legs."),
                    Reply(Intent.AGREE, "My legs hurt as well, it was the long way down from {peak}."),
                    Reply(Intent.TELL, "Sore muscles go away after three days, trekking poles save the knees."),
                    Reply(Intent.ASK, "Did you stretch your legs after the hike?", "No, I fell into a deckchair."),
                    Reply(Intent.JOKE, "Walk down the stairs backwards, it looks elegant."),
                ),
            ),
            Opener(
                says=("Can I take the dog on the hike to {peak}?", "Is the way to {peak} suitable for children?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, until {peak} there are only meadows and a small bridge."),
                    Reply(Intent.DECLINE, "I would not, there is a ladder shortly before {peak}."),
                    Reply(
                        Intent.ASK,
                        "How old are they, and can they walk for four hours?",
                        "Six and nine, with many breaks.",
                    ),
                    Reply(Intent.TELL, "There are cows with calves on the way to {peak}, keep a distance."),
                    Reply(Intent.ADVISE, "Choose the round walk under {peak}, it is shorter and has a playground."),
                    Reply(Intent.JOKE, "They manage {peak}, it is us who need the breaks."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Fine, then we meet at the car park below {peak}."),
            FollowUp(Intent.ASK, "I look at the map and tell you."),
            FollowUp(Intent.ADVISE, "I pack {kit} right away."),
            FollowUp(Intent.DECLINE, "Then we do {peak} another time."),
            FollowUp(Intent.SYMPATHISE, "Thanks, the view made up for the pain."),
            FollowUp(Intent.JOKE, "Ha, the cows would laugh at us."),
            FollowUp(Intent.TELL, "Good to know before we start for {peak}."),
        ),
        later=(
            "The hut below {peak} has the best plum cake.",
            "We filled the bottles at a spring.",
            "From {peak} you can see three lakes.",
            "On {day} I saw an eagle above {peak}.",
            "A plaster belongs into every rucksack.",
        ),
        closings=("See you on {day} at the car park, with {kit}!", "I oil my hiking boots now, bye."),
    ),
)
