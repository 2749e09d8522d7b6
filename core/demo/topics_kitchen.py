"""What people say about the kitchen and the shopping: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

KITCHEN = (
    Topic(
        name="cooking",
        subject="dinner",
        slots={
            "dish": (
                "lentil curry",
                "mushroom risotto",
                "potato soup",
                "vegetable lasagne",
                "chicken stew",
                "bean goulash",
                "tomato pasta",
                "fried rice",
            ),
            "spice": ("cumin", "paprika", "thyme", "ginger", "rosemary", "nutmeg"),
        },
        openers=(
            Opener(
                says=(
                    "I am cooking {dish} for my {kin} on {day}.",
                    "My {kin} comes for dinner on {day} and I will make {dish}.",
                ),
                replies=(
                    Reply(Intent.AGREE, "Great choice, {dish} is filling and you can prepare most of it in advance."),
                    Reply(
                        Intent.ASK,
                        "Does your {kin} eat everything, or should the {dish} be mild?",
                        "Everything except very hot chillies, so I keep it mild.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Make a double portion of {dish}, it tastes even better warmed up the next day.",
                    ),
                    Reply(Intent.DECLINE, "I would rather not risk {dish} for guests, it always sticks to my pan."),
                    Reply(Intent.JOKE, "If the {dish} burns, tell your {kin} that it is smoked."),
                    Reply(Intent.TELL, "A little {spice} at the end makes {dish} smell wonderful."),
                ),
            ),
            Opener(
                says=("How much {spice} goes into {dish}?", "Do I put {spice} into {dish}, and how much?"),
                replies=(
                    Reply(Intent.TELL, "Half a teaspoon of {spice} for four portions of {dish} is plenty."),
                    Reply(
                        Intent.ADVISE,
                        "Start with a pinch of {spice}, stir, and taste the {dish} before you add more.",
                    ),
                    Reply(Intent.DECLINE, "I leave the {spice} out completely, {dish} needs only salt and pepper."),
                    Reply(
                        Intent.ASK,
                        "Is it fresh {spice} or the ground one from the jar?",
                        "Ground, from a jar that has been open since last winter.",
                    ),
                    Reply(Intent.AGREE, "You are right to ask, too much {spice} ruins the whole {dish}."),
                    Reply(Intent.JOKE, "My grandmother measured {spice} by shouting stop at my grandfather."),
                ),
            ),
            Opener(
                says=("My {dish} tastes of nothing.", "I followed the recipe and my {dish} still tastes bland."),
                replies=(
                    Reply(Intent.ADVISE, "Add salt and a squeeze of lemon, bland {dish} usually lacks acid."),
                    Reply(
                        Intent.SYMPATHISE,
                        "How annoying, after all that chopping and stirring the {dish} should taste of something.",
                    ),
                    Reply(
                        Intent.ASK,
                        "Did you brown the onions before the rest went into the pot?",
                        "No, I threw the onions in with everything else.",
                    ),
                    Reply(
                        Intent.TELL,
                        "Bland {dish} needs twenty more minutes on a low flame so the flavour concentrates.",
                    ),
                    Reply(Intent.JOKE, "Serve the {dish} in the dark and call it a mystery dinner."),
                    Reply(Intent.AGREE, "Mine came out bland as well, that recipe for {dish} forgets the {spice}."),
                ),
            ),
            Opener(
                says=("Can you give me your recipe for {dish}?", "I'd love your recipe for {dish}."),
                replies=(
                    Reply(Intent.AGREE, "Of course, I will write the recipe for {dish} down and bring it on {day}."),
                    Reply(
                        Intent.DECLINE,
                        "Sorry, the {dish} recipe is a family secret, my {kin} would never forgive me.",
                    ),
                    Reply(
                        Intent.TELL,
                        "There is no real recipe, I fry onions, add {spice} and let the {dish} simmer for an hour.",
                    ),
                    Reply(
                        Intent.ASK,
                        "For how many people do you want to cook the {dish}?",
                        "For six, so the big pot has to come out.",
                    ),
                    Reply(Intent.JOKE, "The recipe says one spoon of wine for the {dish} and two for the cook."),
                    Reply(Intent.ADVISE, "Watch me make {dish} once, that explains more than a written recipe."),
                ),
            ),
            Opener(
                says=(
                    "The pan is burnt black after the {dish}.",
                    "I forgot the {dish} on the stove and now the pan is black.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Boil water with baking soda in the burnt pan and let it stand overnight."),
                    Reply(Intent.SYMPATHISE, "Oh no, the good pan, and no dinner after all that work."),
                    Reply(
                        Intent.ASK,
                        "Is it a steel pan or one with a coating?",
                        "A steel pan, the coated one is even older.",
                    ),
                    Reply(
                        Intent.TELL,
                        "A black steel pan comes clean with vinegar, a burnt coating has to be thrown away.",
                    ),
                    Reply(Intent.JOKE, "Now the pan matches the dark kitchen tiles."),
                    Reply(
                        Intent.DECLINE,
                        "Don't scrub the pan with wire, that only makes the burnt crust worse next time.",
                    ),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Glad you like {dish} too, I will start chopping early."),
            FollowUp(Intent.ASK, "Good question, I will look into the fridge and decide about the {dish}."),
            FollowUp(Intent.ADVISE, "I will try that with the next pot of {dish}."),
            FollowUp(Intent.DECLINE, "Fair enough, but I still want to cook {dish} at least once."),
            FollowUp(Intent.SYMPATHISE, "Thanks, we will order soup and laugh about the {dish}."),
            FollowUp(Intent.JOKE, "Ha, my guests would even believe that about the {dish}."),
            FollowUp(Intent.TELL, "Then I buy more {spice} when I pass the market."),
            FollowUp(Intent.TELL, "That sounds easy enough, even for my small kitchen."),
        ),
        later=(
            "For dessert I could do baked apples, they fit well after {dish}.",
            "A sharp knife saves more time in the kitchen than any machine.",
            "The smell of {spice} in the kitchen always makes the neighbours curious.",
            "Leftover {dish} freezes well in small boxes.",
            "Next time we cook together, you chop and I stir the pot.",
        ),
        closings=(
            "Enjoy your meal, and tell me how the {dish} turned out.",
            "I have to stir the pot now, until later!",
        ),
    ),
    Topic(
        name="baking",
        subject="the cake",
        slots={
            "cake": (
                "carrot cake",
                "lemon tart",
                "apple pie",
                "banana bread",
                "cheesecake",
                "walnut bread",
                "marble cake",
                "plum crumble",
            ),
        },
        openers=(
            Opener(
                says=("My {cake} did not rise at all.", "The {cake} came out of the oven as flat as a plate."),
                replies=(
                    Reply(
                        Intent.ASK,
                        "Was the baking powder fresh when you made the {cake}?",
                        "The packet was two years old, now that I look at it.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Next time don't open the oven door in the first half hour, the {cake} collapses.",
                    ),
                    Reply(Intent.SYMPATHISE, "What a pity about the {cake}, with all the butter and eggs you put in."),
                    Reply(Intent.TELL, "A flat {cake} mostly means that the dough was stirred too long."),
                    Reply(Intent.JOKE, "Cut the flat {cake} into squares and sell it as biscuits."),
                    Reply(Intent.AGREE, "Same here, my {cake} stayed flat last week, the flour is to blame."),
                ),
            ),
            Opener(
                says=("Can I bake {cake} without eggs?", "Is there a way to make {cake} with no eggs?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, mashed banana replaces the eggs in {cake} quite well."),
                    Reply(Intent.TELL, "Two spoons of ground flax seed in water do the job of an egg in the dough."),
                    Reply(Intent.DECLINE, "I would not, {cake} without eggs falls apart when you slice it."),
                    Reply(
                        Intent.ASK,
                        "Is it because of an allergy, or are you just out of eggs?",
                        "An allergy, my {kin} cannot eat eggs.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Use apple sauce in place of the eggs and bake the {cake} ten minutes longer.",
                    ),
                    Reply(Intent.JOKE, "The hens would certainly support {cake} without eggs."),
                ),
            ),
            Opener(
                says=(
                    "I am baking {cake} for the school fair on {day}.",
                    "The school fair is on {day} and I promised them {cake}.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Slice the {cake} at home, at the fair nobody ever finds a knife."),
                    Reply(Intent.AGREE, "Lovely, {cake} was the first thing sold out at the fair last year."),
                    Reply(
                        Intent.ASK,
                        "How many slices of {cake} do they expect from each family?",
                        "At least twenty slices, so it will be two trays.",
                    ),
                    Reply(Intent.TELL, "The fair needs labels, write down whether the {cake} contains nuts."),
                    Reply(Intent.JOKE, "Remember to fail one {cake} so there is something left for us."),
                    Reply(
                        Intent.DECLINE,
                        "On {day} I cannot come to the fair, but I would have bought the whole {cake}.",
                    ),
                ),
            ),
            Opener(
                says=("How do you know when {cake} is done?", "How long does {cake} stay in the oven?"),
                replies=(
                    Reply(
                        Intent.TELL,
                        "Push a wooden stick into the middle, when it comes out dry the {cake} is done.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Look at the colour after forty minutes and cover the {cake} if it gets too brown.",
                    ),
                    Reply(
                        Intent.ASK,
                        "Do you use top and bottom heat or the fan in your oven?",
                        "The fan, it is the only setting that still works.",
                    ),
                    Reply(
                        Intent.TELL,
                        "My {cake} needs fifty minutes at a hundred and eighty degrees on the middle rack.",
                    ),
                    Reply(Intent.JOKE, "When the smoke alarm rings, the {cake} is done."),
                    Reply(Intent.AGREE, "I never know either, each oven browns {cake} in its own time."),
                ),
            ),
            Opener(
                says=("I want to start a sourdough.", "I am thinking about keeping a sourdough starter."),
                replies=(
                    Reply(Intent.ADVISE, "Mix rye flour with warm water, feed the sourdough daily and give it a week."),
                    Reply(
                        Intent.DECLINE,
                        "I gave up on sourdough, feeding the jar each morning was like having another pet.",
                    ),
                    Reply(Intent.AGREE, "Good idea, sourdough bread stays fresh for days and the crust is crisp."),
                    Reply(
                        Intent.ASK,
                        "Do you have a warm corner in the kitchen for the sourdough jar?",
                        "Above the fridge it is always a bit warm.",
                    ),
                    Reply(Intent.TELL, "My {kin} can give you a spoon of a sourdough that is ten years old."),
                    Reply(Intent.JOKE, "You have to name the sourdough first, mine is called Bubbles."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then I am not the only one who fights with dough."),
            FollowUp(Intent.ASK, "Hm, I have to check the cupboard for flour and baking powder first."),
            FollowUp(Intent.ADVISE, "I will write that next to the {cake} recipe."),
            FollowUp(Intent.DECLINE, "Too bad, but I will bake the {cake} anyway and report."),
            FollowUp(Intent.SYMPATHISE, "Thanks, we ate the {cake} with cream and nobody complained."),
            FollowUp(Intent.JOKE, "Ha, I will tell everyone that the {cake} was meant like this."),
            FollowUp(Intent.TELL, "So that is the trick with the dough, I always wondered."),
            FollowUp(Intent.TELL, "Then I set the oven timer and try the {cake} again on {day}."),
        ),
        later=(
            "A spoon of sour cream keeps {cake} moist for days.",
            "My oven heats unevenly, I turn the tin round halfway.",
            "Icing sugar hides every crack in a {cake}.",
            "The smell of warm {cake} is worth all the washing up.",
            "I could bring a slice of {cake} over when it has cooled down.",
        ),
        closings=("The oven is beeping, I have to run to the {cake}!", "Happy baking, and save me a slice!"),
    ),
    Topic(
        name="coffee",
        subject="the coffee",
        slots={
            "drink": (
                "an espresso",
                "a flat white",
                "a cappuccino",
                "green tea",
                "a hot chocolate",
                "a filter coffee",
                "mint tea",
            ),
        },
        openers=(
            Opener(
                says=("Shall we meet for {drink} on {day}?", "Do you have time for {drink} on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "With pleasure, {drink} on {day} is just what I need."),
                    Reply(
                        Intent.ASK,
                        "Do you mean the cafe by the station or the one in the park?",
                        "The one in the park, they have the better cake.",
                    ),
                    Reply(Intent.DECLINE, "On {day} I can't, my {kin} is here, but let's have {drink} next week."),
                    Reply(Intent.ADVISE, "Let's meet before {time}, later the cafe is packed."),
                    Reply(Intent.JOKE, "For {drink} I would even get up early on {day}."),
                    Reply(Intent.TELL, "The cafe is closed on {day}, but the bakery also makes {drink}."),
                ),
            ),
            Opener(
                says=("My coffee machine only makes lukewarm coffee.", "The coffee from my machine is hardly warm."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Descale the coffee machine with citric acid, then the coffee gets hot again.",
                    ),
                    Reply(
                        Intent.ASK,
                        "How old is the coffee machine, and was it ever cleaned inside?",
                        "Six years old and never descaled, I confess.",
                    ),
                    Reply(Intent.SYMPATHISE, "Lukewarm coffee in the morning, what a sad start to the day."),
                    Reply(Intent.TELL, "The heating part of the machine wears out, a new one is cheap."),
                    Reply(Intent.AGREE, "Mine too, I warm the cups with hot water first."),
                    Reply(Intent.JOKE, "Add ice and say that it is meant to be iced coffee."),
                ),
            ),
            Opener(
                says=("I want to drink less coffee.", "I try to get by with less coffee."),
                replies=(
                    Reply(Intent.ADVISE, "Replace every second coffee with mint tea, that worked for me."),
                    Reply(Intent.AGREE, "So do I, after five cups of coffee my hands shake."),
                    Reply(Intent.DECLINE, "Why less, two cups of coffee a day harm nobody."),
                    Reply(
                        Intent.ASK,
                        "How many cups of coffee do you drink on a working day?",
                        "Seven, and the last one after dinner.",
                    ),
                    Reply(Intent.TELL, "The headache without coffee lasts for three days, then it is gone."),
                    Reply(Intent.JOKE, "I drink less coffee too, I bought a smaller cup."),
                ),
            ),
            Opener(
                says=("Which beans do you buy for {drink}?", "What kind of beans make good {drink}?"),
                replies=(
                    Reply(Intent.TELL, "I buy dark roasted beans from the small roaster and grind them for {drink}."),
                    Reply(Intent.ADVISE, "Look for the roasting date on the bag, old beans make flat coffee."),
                    Reply(
                        Intent.ASK,
                        "Do you grind the beans yourself?",
                        "By hand, every morning, it is my only sport.",
                    ),
                    Reply(Intent.DECLINE, "Beans don't matter much for {drink}, clean water does."),
                    Reply(Intent.AGREE, "The same as you, light beans that smell of berries."),
                    Reply(Intent.JOKE, "The ones my {kin} hides at the back of the shelf."),
                ),
            ),
            Opener(
                says=("I spilled {drink} over my laptop.", "There is {drink} in my keyboard."),
                replies=(
                    Reply(Intent.ADVISE, "Switch the laptop off, turn it over and let it dry for two days."),
                    Reply(Intent.SYMPATHISE, "Oh no, {drink} in the keyboard is a real disaster."),
                    Reply(Intent.ASK, "Was there sugar in {drink}?", "Two spoons, the keys are already sticky."),
                    Reply(Intent.TELL, "Without sugar {drink} does less harm, mostly the keys survive."),
                    Reply(Intent.AGREE, "I did that last year, the laptop smelled of coffee until the end."),
                    Reply(Intent.JOKE, "Now the laptop will never be sleepy again."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Nice, I can almost smell the coffee."),
            FollowUp(Intent.ASK, "I think about it while the kettle boils."),
            FollowUp(Intent.ADVISE, "I try it with tomorrow's first coffee."),
            FollowUp(Intent.DECLINE, "Fine, more coffee for me then."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I drown my sorrow in {drink}."),
            FollowUp(Intent.JOKE, "Ha, then I need a bigger mug."),
            FollowUp(Intent.TELL, "Aha, I never thought of the roasting date of the coffee."),
        ),
        later=(
            "The cafe round the corner draws hearts into the milk foam.",
            "Without breakfast coffee upsets my stomach.",
            "Oat milk foams better than I expected.",
            "My {kin} reads the future from coffee grounds.",
            "A biscuit belongs to {drink}, that is a law.",
        ),
        closings=("My cup is empty, back to work!", "See you on {day} for {drink}."),
    ),
    Topic(
        name="groceries",
        subject="the shopping",
        slots={
            "item": (
                "oat milk",
                "fresh bread",
                "olive oil",
                "washing powder",
                "rice",
                "apple juice",
                "butter",
                "toilet paper",
            ),
        },
        openers=(
            Opener(
                says=(
                    "I'm going to the supermarket, do you need {item}?",
                    "Shall I bring {item} from the supermarket?",
                ),
                replies=(
                    Reply(Intent.AGREE, "Yes please, bring {item} and take the money from the tin."),
                    Reply(Intent.DECLINE, "No thanks, we still have {item} in the cupboard."),
                    Reply(
                        Intent.ASK,
                        "Are you going by car, could you bring {item} and two crates of water too?",
                        "By car, so heavy things are no problem.",
                    ),
                    Reply(Intent.ADVISE, "Get {item} from the market, at the supermarket it is twice the price."),
                    Reply(Intent.TELL, "{item} is on offer this week, it says in the leaflet."),
                    Reply(Intent.JOKE, "Bring {item}, chocolate, and something healthy as an alibi."),
                ),
            ),
            Opener(
                says=("They were out of {item} again.", "There was no {item} left in the whole shop."),
                replies=(
                    Reply(Intent.SYMPATHISE, "How annoying, then the walk to the shop was for nothing."),
                    Reply(Intent.ADVISE, "Try the small corner shop, they always keep {item} behind the counter."),
                    Reply(
                        Intent.ASK,
                        "Did you ask when the next delivery of {item} comes?",
                        "On {day} morning, says the cashier.",
                    ),
                    Reply(Intent.AGREE, "I found the shelf empty too, {item} seems to be rare now."),
                    Reply(Intent.TELL, "The lorry with {item} is stuck, the supermarket put up a sign."),
                    Reply(Intent.DECLINE, "Strange, I saw plenty of {item} there at {time}."),
                ),
            ),
            Opener(
                says=(
                    "Everything in the supermarket has become so expensive.",
                    "The price of {item} has gone up again.",
                ),
                replies=(
                    Reply(Intent.AGREE, "True, for {item} alone I pay twice as much as two years ago."),
                    Reply(Intent.ADVISE, "Write a list and never go to the supermarket hungry."),
                    Reply(Intent.TELL, "At the market the prices fall in the last hour before closing."),
                    Reply(
                        Intent.ASK,
                        "Do you compare the prices of the different supermarkets?",
                        "I used to, but now they are all dear.",
                    ),
                    Reply(Intent.JOKE, "Soon they will sell {item} in a velvet box."),
                    Reply(Intent.DECLINE, "Not everything, vegetables in season are cheaper than last year."),
                ),
            ),
            Opener(
                says=("I forgot my purse at the checkout.", "At the checkout I noticed that my purse was at home."),
                replies=(
                    Reply(Intent.SYMPATHISE, "How embarrassing, with the full trolley and a queue behind you."),
                    Reply(Intent.ADVISE, "Pay with your phone, then the forgotten purse does not matter."),
                    Reply(
                        Intent.ASK,
                        "Did they keep your shopping at the checkout for you?",
                        "Yes, the trolley waited beside the flowers.",
                    ),
                    Reply(Intent.AGREE, "That happened to me on {day}, the cashier only smiled."),
                    Reply(Intent.TELL, "Put a spare note into your phone case for the checkout."),
                    Reply(Intent.JOKE, "You could have offered to sort {item} for an hour."),
                ),
            ),
            Opener(
                says=("Could we order the groceries online?", "What about having {item} and the rest delivered?"),
                replies=(
                    Reply(Intent.AGREE, "Good idea, a delivery saves us carrying {item} up four floors."),
                    Reply(Intent.DECLINE, "I prefer to choose my own fruit, the delivery brings the bruised ones."),
                    Reply(Intent.TELL, "The delivery costs a small fee and comes between six and {time}."),
                    Reply(
                        Intent.ASK,
                        "Is there a smallest amount for the delivery?",
                        "Forty, which we reach with {item} and coffee.",
                    ),
                    Reply(Intent.ADVISE, "Order early, the delivery slots for {day} are gone quickly."),
                    Reply(Intent.JOKE, "Then I lose my only sport, running to the shop before it closes."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Good, then {item} goes on the list."),
            FollowUp(Intent.ASK, "Wait, I look into the fridge and tell you."),
            FollowUp(Intent.ADVISE, "I will try the market on {day} for {item}."),
            FollowUp(Intent.DECLINE, "Alright, then we do without {item} for a while."),
            FollowUp(Intent.SYMPATHISE, "Thanks, in the end I borrowed {item} from next door."),
            FollowUp(Intent.JOKE, "Ha, that would make the supermarket queue more fun."),
            FollowUp(Intent.TELL, "That is useful, I go shopping on {day} then."),
        ),
        later=(
            "The shopping bags tore right in front of the house.",
            "At the cheese counter they let me taste everything.",
            "I only wanted {item} and came back with two full bags.",
            "The deposit bottles have to go back to the supermarket.",
            "A shopping list on the phone is no use when the battery is empty.",
        ),
        closings=("I am at the checkout, see you soon!", "Off to the shops, bye!"),
    ),
)
