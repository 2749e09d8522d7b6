"""What people say about living together in a house: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

HOME = (
    Topic(
        name="house-moving",
        subject="the move",
        slots={
            "thing": (
                "the piano",
                "the wardrobe",
                "the washing machine",
                "the bookshelves",
                "the big sofa",
                "the fish tank",
                "the desk",
            ),
            "flat": (
                "the new flat",
                "the house in the suburb",
                "the attic flat",
                "the flat by the river",
                "the shared flat",
            ),
        },
        openers=(
            Opener(
                says=("We are moving to {flat} on {day}.", "On {day} we finally move into {flat}."),
                replies=(
                    Reply(Intent.AGREE, "Congratulations, {flat} has so much more light than your old place."),
                    Reply(
                        Intent.ASK,
                        "Do you still need hands for carrying boxes on {day}?",
                        "Yes, two strong people for the stairs would save us.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Label the boxes with the room names, otherwise you search for cups until Christmas.",
                    ),
                    Reply(Intent.DECLINE, "On {day} I cannot help with the move, I am at work until late."),
                    Reply(Intent.JOKE, "I already feel my back hurting when I hear of {flat} and boxes."),
                    Reply(Intent.TELL, "The street in front of {flat} is narrow, reserve a parking space for the van."),
                ),
            ),
            Opener(
                says=(
                    "How will we get {thing} down the stairs?",
                    "I have no idea how to carry {thing} down the stairs.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Take {thing} apart first and wrap the screws in a labelled bag."),
                    Reply(
                        Intent.TELL,
                        "A removal company lifts {thing} through the window with a crane for a small fee.",
                    ),
                    Reply(
                        Intent.ASK,
                        "How wide is the turn on the second floor, will {thing} fit?",
                        "Eighty centimetres, I measured it twice this morning.",
                    ),
                    Reply(Intent.AGREE, "I wonder too, {thing} barely came up the stairs with four people."),
                    Reply(Intent.DECLINE, "Leave {thing} behind, the next tenant might even pay for it."),
                    Reply(Intent.JOKE, "Simple, we saw the stairs in half and keep {thing}."),
                ),
            ),
            Opener(
                says=("I still need boxes for the move.", "Where do you get boxes for moving house?"),
                replies=(
                    Reply(Intent.TELL, "The supermarket gives away empty banana boxes before nine in the morning."),
                    Reply(Intent.AGREE, "I have thirty boxes from my own move in the cellar, come and take them."),
                    Reply(Intent.ADVISE, "Don't buy boxes, rent plastic crates, they are stronger and get collected."),
                    Reply(
                        Intent.ASK,
                        "How many boxes do you think you need for all the books?",
                        "Maybe twenty just for books and ten for dishes.",
                    ),
                    Reply(Intent.JOKE, "I would send you boxes, but I still live out of mine."),
                    Reply(Intent.SYMPATHISE, "I remember that, packing at midnight and no box left."),
                ),
            ),
            Opener(
                says=("Could you help me paint {flat} before the move?", "I have to paint {flat} before we move in."),
                replies=(
                    Reply(Intent.AGREE, "Sure, I bring rollers and old sheets, we paint {flat} on {day}."),
                    Reply(
                        Intent.DECLINE,
                        "I can't, the smell of paint gives me a headache, but I can cook for the painters.",
                    ),
                    Reply(
                        Intent.ASK,
                        "Which colour do you want on the walls of {flat}?",
                        "A warm white everywhere and one green wall.",
                    ),
                    Reply(Intent.ADVISE, "Tape the window frames first, that takes an hour and saves three."),
                    Reply(Intent.TELL, "Two coats of paint for {flat} need about fifteen litres."),
                    Reply(Intent.JOKE, "Last time I painted a room the cat stayed blue for weeks."),
                ),
            ),
            Opener(
                says=(
                    "My landlord wants to keep the deposit.",
                    "The landlord will not return the deposit for the old flat.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Write to the landlord with a deadline and ask for a list of the damages."),
                    Reply(Intent.SYMPATHISE, "That is so unfair, you left the old flat cleaner than you found it."),
                    Reply(
                        Intent.ASK,
                        "Did you take photos of the flat on the last day?",
                        "Yes, every room, and a friend was there as witness.",
                    ),
                    Reply(Intent.TELL, "The tenants' association checks such deposit cases for a small yearly fee."),
                    Reply(Intent.AGREE, "Mine tried the same, the deposit came back after one firm letter."),
                    Reply(Intent.DECLINE, "Some of the deposit he may keep, until the heating bill is settled."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Great, then the move starts with good company."),
            FollowUp(Intent.ASK, "I will measure {thing} tonight, then we know more about the move."),
            FollowUp(Intent.ADVISE, "Good point, I put that on the moving list right now."),
            FollowUp(Intent.DECLINE, "No problem, we will find somebody else to carry {thing}."),
            FollowUp(Intent.SYMPATHISE, "Thanks, moving is hard enough without such worries."),
            FollowUp(Intent.JOKE, "Ha, and somebody will certainly sit on {thing} and give orders."),
            FollowUp(Intent.TELL, "That helps, I was afraid the van and {thing} would cost a fortune."),
            FollowUp(Intent.TELL, "So I plan the van and the boxes for {day} morning."),
        ),
        later=(
            "The kitchen boxes go last into the van, so the kettle comes out first.",
            "I have to tell the post office the new address before the move.",
            "In {flat} the windows face south, so the plants will be happy.",
            "Bread and salt for {flat} is an old custom, I like it.",
            "After the move there will be pizza on the floor for everyone who carried.",
        ),
        closings=("See you at {flat}, bring gloves!", "I go back to packing boxes now."),
    ),
    Topic(
        name="furniture",
        subject="the furniture",
        slots={
            "piece": (
                "the bookcase",
                "the chest of drawers",
                "the bunk bed",
                "the kitchen table",
                "the shoe cabinet",
                "the wardrobe",
                "the desk",
            ),
        },
        openers=(
            Opener(
                says=("There are screws left over from {piece}.", "I built {piece} and three screws are left over."),
                replies=(
                    Reply(
                        Intent.ASK,
                        "Does {piece} wobble when you push it from the side?",
                        "A little, mostly at the top left corner.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Go through the instructions of {piece} again, often the back panel needs those screws.",
                    ),
                    Reply(Intent.AGREE, "That happens to me each time, {piece} still stands after years."),
                    Reply(Intent.TELL, "They put spare screws in the bag, so {piece} is probably fine."),
                    Reply(Intent.JOKE, "Left over screws are the reward for your speed with {piece}."),
                    Reply(Intent.DECLINE, "I would not load {piece} before you know where those screws belong."),
                ),
            ),
            Opener(
                says=(
                    "Can you help me assemble {piece} on {day}?",
                    "I can't assemble {piece} alone, do you have time on {day}?",
                ),
                replies=(
                    Reply(Intent.AGREE, "Sure, I bring my cordless screwdriver on {day} and we build {piece}."),
                    Reply(Intent.DECLINE, "On {day} I can't, but on the day after I could help with {piece}."),
                    Reply(
                        Intent.ASK,
                        "Do you have the instructions for {piece}, and an Allen key?",
                        "Both are in the box, and a hammer is here too.",
                    ),
                    Reply(Intent.ADVISE, "Lay out all the boards of {piece} on a blanket first and count the screws."),
                    Reply(Intent.JOKE, "I help with {piece} if I may read the instructions aloud like a poem."),
                    Reply(Intent.TELL, "For {piece} two people need about two hours."),
                ),
            ),
            Opener(
                says=("I want to sell {piece}.", "Do you know anybody who needs {piece}?"),
                replies=(
                    Reply(Intent.AGREE, "My {kin} is looking for exactly that, how much do you want for {piece}?"),
                    Reply(Intent.TELL, "On the neighbourhood board {piece} would be gone within a day."),
                    Reply(
                        Intent.ASK,
                        "What size is {piece}, and are there scratches?",
                        "A metre and a half, with one scratch on the side.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Take photos of {piece} in daylight and write the measurements into the advert.",
                    ),
                    Reply(Intent.DECLINE, "I have no room for {piece}, my flat is full to the ceiling."),
                    Reply(Intent.JOKE, "I would swap {piece} for two chairs that squeak."),
                ),
            ),
            Opener(
                says=("The drawer of {piece} is stuck.", "I can't open the drawer of {piece} any more."),
                replies=(
                    Reply(Intent.ADVISE, "Rub candle wax on the runners, then the drawer of {piece} glides again."),
                    Reply(
                        Intent.ASK,
                        "Could something inside the drawer be blocking it?",
                        "Maybe a wooden spoon, it was very full.",
                    ),
                    Reply(Intent.TELL, "In damp weather the wood swells and each drawer of {piece} jams."),
                    Reply(Intent.SYMPATHISE, "How annoying, and of course the thing you need is in that drawer."),
                    Reply(Intent.JOKE, "Perhaps the drawer of {piece} wants some privacy."),
                    Reply(Intent.AGREE, "Mine is stuck too, I pull with both hands and one foot."),
                ),
            ),
            Opener(
                says=("Which wood would you choose for {piece}?", "I can't decide on the wood for {piece}."),
                replies=(
                    Reply(Intent.TELL, "Oak is heavy and lasts for ever, {piece} in pine is half the price."),
                    Reply(
                        Intent.ADVISE,
                        "Take a sample of the wood home and look at it in evening light beside {piece}.",
                    ),
                    Reply(Intent.DECLINE, "I would not choose wood at all, {piece} in metal looks lighter."),
                    Reply(
                        Intent.ASK,
                        "Are there small children who will scratch {piece}?",
                        "Two of them, and both love crayons.",
                    ),
                    Reply(Intent.AGREE, "I struggled as well, in the end {piece} became beech."),
                    Reply(Intent.JOKE, "Choose the wood that hides the most dust."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Great, then {piece} will be up by the evening."),
            FollowUp(Intent.ASK, "I will check the box of {piece} and count once more."),
            FollowUp(Intent.ADVISE, "Good tip, I get the screwdriver and try it on {piece}."),
            FollowUp(Intent.DECLINE, "That is fine, {piece} has waited for weeks already."),
            FollowUp(Intent.SYMPATHISE, "Thank you, I was close to using an axe on {piece}."),
            FollowUp(Intent.JOKE, "Ha, I will frame the screws and hang them over {piece}."),
            FollowUp(Intent.TELL, "So I need more patience and a better screwdriver."),
            FollowUp(Intent.TELL, "Then I measure the wall before {piece} arrives."),
        ),
        later=(
            "The carton of {piece} is so big that it blocks the hall.",
            "Felt pads under the legs protect the floor.",
            "My {kin} can fix any piece of wood with glue and clamps.",
            "A new coat of varnish would make the old furniture shine.",
            "Flat boxes look so harmless in the shop.",
        ),
        closings=("Thanks, I start with {piece} now.", "Bring the screwdriver, I make the coffee!"),
    ),
    Topic(
        name="cleaning",
        subject="the cleaning",
        slots={
            "stain": ("red wine", "coffee", "grass", "candle wax", "ink", "tomato sauce", "chocolate"),
            "spot": ("the carpet", "the white sofa", "the tablecloth", "the good shirt", "the curtain", "the mattress"),
        },
        openers=(
            Opener(
                says=("How do I get {stain} out of {spot}?", "There is {stain} on {spot}, how do I remove it?"),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Cover the {stain} with salt at once, wait, and then rinse {spot} with cold water.",
                    ),
                    Reply(Intent.TELL, "Gall soap takes {stain} out of almost any fabric, even {spot}."),
                    Reply(
                        Intent.ASK,
                        "Is the {stain} on {spot} fresh or has it dried already?",
                        "It happened last night, so it is completely dry.",
                    ),
                    Reply(Intent.DECLINE, "Don't rub, that only pushes the {stain} deeper into {spot}."),
                    Reply(Intent.SYMPATHISE, "Oh no, {stain} on {spot}, that is everyone's nightmare."),
                    Reply(Intent.JOKE, "Spill more {stain} and call it a pattern on {spot}."),
                ),
            ),
            Opener(
                says=("Whose turn is it to clean the bathroom?", "Who cleans the bathroom this week?"),
                replies=(
                    Reply(Intent.AGREE, "It is mine, I will scrub the bathroom on {day} after breakfast."),
                    Reply(Intent.DECLINE, "Not mine, I cleaned the bathroom and the stairs last week."),
                    Reply(Intent.TELL, "The list on the fridge says that your room has bathroom duty."),
                    Reply(
                        Intent.ASK,
                        "Can we swap, you do the bathroom and I clean the kitchen?",
                        "Fine with me, the kitchen is worse anyway.",
                    ),
                    Reply(Intent.JOKE, "The bathroom cleans itself, I have been waiting for it for weeks."),
                    Reply(Intent.ADVISE, "Let's do the bathroom together on {day}, then it takes only half an hour."),
                ),
            ),
            Opener(
                says=("The windows are so dirty that I can't see the street.", "I really have to wash the windows."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Use warm water, a drop of vinegar and old newspaper, the windows come out clear.",
                    ),
                    Reply(Intent.TELL, "A window cleaner comes through our street each {day} and takes little money."),
                    Reply(Intent.DECLINE, "Don't wash windows in bright sun, the streaks dry at once."),
                    Reply(Intent.AGREE, "Mine too, after the building work the windows are grey with dust."),
                    Reply(
                        Intent.ASK,
                        "Do your windows open inwards, or do you need a ladder?",
                        "Inwards, so at least nobody falls into the street.",
                    ),
                    Reply(Intent.JOKE, "Dirty windows save the money for curtains."),
                ),
            ),
            Opener(
                says=("I found moths in the cupboard.", "There are moths in my kitchen cupboard."),
                replies=(
                    Reply(Intent.ADVISE, "Empty the cupboard, throw away the flour and wipe everything with vinegar."),
                    Reply(Intent.SYMPATHISE, "Yuck, moths in the cupboard are so hard to get rid of."),
                    Reply(Intent.TELL, "Sticky traps catch the male moths, so you see whether there are still some."),
                    Reply(
                        Intent.ASK,
                        "Did you find the moths in the flour or in the nuts?",
                        "In the nuts, the bag was full of threads.",
                    ),
                    Reply(Intent.AGREE, "We had moths last summer, everything now lives in glass jars."),
                    Reply(Intent.JOKE, "Charge the moths rent for the cupboard."),
                ),
            ),
            Opener(
                says=("I plan a big spring clean on {day}.", "On {day} the whole flat gets a spring clean."),
                replies=(
                    Reply(Intent.AGREE, "Good plan, I will clean my cellar on {day} as well, it needs it."),
                    Reply(
                        Intent.ASK,
                        "Do you start the spring clean with the kitchen or with the wardrobe?",
                        "With the wardrobe, half of it can go to charity.",
                    ),
                    Reply(Intent.ADVISE, "Do one room at a time and put a box for donations at the door."),
                    Reply(Intent.DECLINE, "A spring clean on {day}? The forecast is far too sunny for that."),
                    Reply(Intent.JOKE, "I did my spring clean by closing the door of the store room."),
                    Reply(
                        Intent.TELL,
                        "The recycling yard is open until {time} on {day}, for everything you throw out.",
                    ),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then we scrub on the same day and have cake afterwards."),
            FollowUp(Intent.ASK, "I will have a closer look at {spot} when it is light."),
            FollowUp(Intent.ADVISE, "I will try vinegar first, it is cheap and in the house."),
            FollowUp(Intent.DECLINE, "Alright, then no rubbing on {spot}, I promise."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I am more upset about {spot} than I should be."),
            FollowUp(Intent.JOKE, "Ha, dust is a pattern too."),
            FollowUp(Intent.TELL, "I did not know that soap removes {stain}, thanks."),
            FollowUp(Intent.TELL, "I will buy gall soap and a new sponge."),
        ),
        later=(
            "The vacuum cleaner needs a new bag, it only makes noise now.",
            "With loud music the cleaning takes half the time.",
            "A damp cloth catches more dust than a dry one.",
            "After cleaning I like the smell of lemon in the rooms.",
            "The mop water was black, I changed it three times.",
        ),
        closings=("I take out the rubbish now, until later.", "Good luck with {spot}!"),
    ),
    Topic(
        name="laundry",
        subject="the laundry",
        slots={
            "cloth": (
                "the wool pullover",
                "the white shirt",
                "the linen dress",
                "the football kit",
                "the bed linen",
                "the silk scarf",
            ),
        },
        openers=(
            Opener(
                says=("I shrank {cloth} in the wash.", "{cloth} came out of the washing machine two sizes smaller."),
                replies=(
                    Reply(Intent.ADVISE, "Soak {cloth} in water with hair conditioner and pull it gently into shape."),
                    Reply(Intent.SYMPATHISE, "Oh no, not {cloth}, you wore it all the time."),
                    Reply(Intent.ASK, "How hot did you wash {cloth}?", "At sixty degrees, together with the towels."),
                    Reply(Intent.JOKE, "Now {cloth} fits the neighbour's dog perfectly."),
                    Reply(Intent.TELL, "Hot water and spinning shrink {cloth}, thirty degrees would have been right."),
                    Reply(Intent.AGREE, "I ruined mine the same way, the laundry label is there for a reason."),
                ),
            ),
            Opener(
                says=("Which programme do I use for {cloth}?", "How do you wash {cloth}?"),
                replies=(
                    Reply(Intent.TELL, "Wash {cloth} at thirty degrees with little spin and mild soap."),
                    Reply(Intent.ADVISE, "Turn {cloth} inside out and put it into a laundry bag."),
                    Reply(Intent.DECLINE, "Not in the machine at all, {cloth} belongs in a bowl with cold water."),
                    Reply(
                        Intent.ASK,
                        "What does the label of {cloth} say?",
                        "A triangle with a cross and two dots, whatever that means.",
                    ),
                    Reply(Intent.AGREE, "I always use the short programme, {cloth} survives it well."),
                    Reply(Intent.JOKE, "I give {cloth} to my {kin} and look helpless."),
                ),
            ),
            Opener(
                says=("Everything came out pink because of a red sock.", "A red sock turned the whole laundry pink."),
                replies=(
                    Reply(Intent.ADVISE, "Wash the pink laundry again at once with a stain remover, before it dries."),
                    Reply(Intent.SYMPATHISE, "What bad luck, one red sock and the whole wash is pink."),
                    Reply(Intent.JOKE, "Pink suits you, and the sock has made a statement."),
                    Reply(
                        Intent.ASK,
                        "Is {cloth} pink too, or only the towels?",
                        "{cloth} as well, it now looks like candy.",
                    ),
                    Reply(Intent.TELL, "Decolouring powder from the chemist takes the pink out of white laundry."),
                    Reply(Intent.AGREE, "That happened to me, I wore pink to the office for a month."),
                ),
            ),
            Opener(
                says=("May I use the dryer on {day}?", "Is the laundry room free on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, the laundry room is free on {day} after {time}."),
                    Reply(Intent.DECLINE, "On {day} the laundry room is taken, I wash {cloth} and all the curtains."),
                    Reply(Intent.TELL, "Write your name on the laundry list at the door, for {day} it is still empty."),
                    Reply(Intent.ADVISE, "Clean the filter of the dryer first, otherwise it takes hours."),
                    Reply(
                        Intent.ASK,
                        "Do you need only the dryer, or the washing machine too?",
                        "Only the dryer, for two loads.",
                    ),
                    Reply(Intent.JOKE, "The dryer eats socks, so count them before {day}."),
                ),
            ),
            Opener(
                says=("I hate ironing {cloth}.", "Ironing {cloth} takes me for ever."),
                replies=(
                    Reply(Intent.ADVISE, "Iron {cloth} while it is damp, or hang it in the steamy bathroom."),
                    Reply(Intent.AGREE, "Me too, ironing {cloth} is the worst of all the laundry."),
                    Reply(Intent.DECLINE, "I like ironing {cloth}, with the radio on it is almost restful."),
                    Reply(Intent.JOKE, "I tell people that creases in {cloth} are the fashion."),
                    Reply(
                        Intent.ASK,
                        "Have you got a steam iron or the old heavy one?",
                        "The old one, it spits brown water.",
                    ),
                    Reply(Intent.TELL, "Folded straight out of the dryer, {cloth} needs no ironing."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "So we both learned about {cloth} the hard way."),
            FollowUp(Intent.ASK, "I will look for the label in {cloth}."),
            FollowUp(Intent.ADVISE, "I will soak {cloth} tonight and hope for the best."),
            FollowUp(Intent.DECLINE, "Alright, then I wash {cloth} by hand."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I may turn {cloth} into a cushion."),
            FollowUp(Intent.JOKE, "Ha, I will start a new fashion with {cloth}."),
            FollowUp(Intent.TELL, "Thirty degrees then, I write it on the washing machine."),
            FollowUp(Intent.TELL, "Good, I put my name on the laundry list."),
        ),
        later=(
            "There are always more left socks than right ones in the laundry.",
            "The laundry dries in an hour with this wind.",
            "My washing machine walks through the bathroom when it spins.",
            "I hang {cloth} in the shade so the colour stays.",
            "A bit of vinegar makes the towels soft again.",
        ),
        closings=("The machine is beeping, I hang up the laundry now.", "Good luck with {cloth}!"),
    ),
    Topic(
        name="neighbours",
        subject="the noise next door",
        slots={
            "noise": (
                "the drilling",
                "the loud music",
                "the barking",
                "the piano practice",
                "the party noise",
                "the tap dancing",
            ),
        },
        openers=(
            Opener(
                says=("My neighbour keeps me awake with {noise}.", "I can't sleep because of {noise} next door."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Ring the bell and ask kindly, perhaps your neighbour has no idea that {noise} comes through.",
                    ),
                    Reply(Intent.SYMPATHISE, "That is awful, with {noise} half the night nobody can rest."),
                    Reply(
                        Intent.ASK,
                        "At what hour does {noise} usually start?",
                        "Always after eleven, when I have just gone to bed.",
                    ),
                    Reply(Intent.TELL, "By the house rules {noise} has to stop at ten in the evening."),
                    Reply(Intent.AGREE, "I hear {noise} as well, even two floors up."),
                    Reply(Intent.JOKE, "Join in with a trumpet, then {noise} becomes a concert."),
                ),
            ),
            Opener(
                says=("Was {noise} on {day} you? Just wondering.", "Did {noise} on {day} come from your flat?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, sorry, {noise} was us, it will not happen again on {day}."),
                    Reply(Intent.DECLINE, "No, we were away on {day}, {noise} must come from upstairs."),
                    Reply(Intent.TELL, "{noise} came from the new tenants, they are still settling in."),
                    Reply(Intent.ASK, "Did {noise} wake up the baby?", "Luckily not, she sleeps through everything."),
                    Reply(Intent.JOKE, "I hoped that nobody would recognise my talent behind {noise}."),
                    Reply(Intent.ADVISE, "Put a note in the hall, then whoever makes {noise} will read it."),
                ),
            ),
            Opener(
                says=(
                    "We are having a small party on {day}, I hope it won't disturb you.",
                    "There will be a party in our flat on {day}.",
                ),
                replies=(
                    Reply(Intent.AGREE, "No worries about the party, enjoy it, I am away on {day} anyway."),
                    Reply(
                        Intent.ASK,
                        "Until when will the party on {day} go on?",
                        "Until midnight at most, then everyone goes home.",
                    ),
                    Reply(Intent.DECLINE, "Please not too loud, I have an early shift after your party."),
                    Reply(
                        Intent.ADVISE,
                        "Hang a sign about the party in the stairwell, the other neighbours like to know.",
                    ),
                    Reply(Intent.JOKE, "A party is only loud for those who are not invited."),
                    Reply(Intent.TELL, "The last party on {day} could be heard in the whole yard, just so you know."),
                ),
            ),
            Opener(
                says=("Have you met the people who moved in next door?", "Do you know the new neighbours yet?"),
                replies=(
                    Reply(
                        Intent.AGREE,
                        "Yes, the new neighbours brought biscuits, a friendly couple with a small child.",
                    ),
                    Reply(Intent.DECLINE, "Not yet, I only saw their boxes and a very large mirror in the hall."),
                    Reply(Intent.TELL, "The new neighbours come from the coast and run a flower stall."),
                    Reply(Intent.ADVISE, "Knock and say hello, new neighbours are always glad about a face."),
                    Reply(
                        Intent.ASK,
                        "Are the new neighbours the ones with the red bicycle?",
                        "Yes, the red bicycle stands in front of their door.",
                    ),
                    Reply(Intent.JOKE, "I have met their dog, and he likes my shoes."),
                ),
            ),
            Opener(
                says=(
                    "Could you take a key to my flat while I am away?",
                    "May I leave a spare key with you as my neighbour?",
                ),
                replies=(
                    Reply(Intent.AGREE, "Of course, leave the key here, I also look after the post."),
                    Reply(Intent.DECLINE, "I would rather not keep the key, I am often away myself."),
                    Reply(
                        Intent.ASK,
                        "Should I only keep the key or also empty the letter box?",
                        "The letter box too, if it isn't too much trouble.",
                    ),
                    Reply(Intent.ADVISE, "Put a tag on the key, otherwise I mix it up with three others."),
                    Reply(Intent.JOKE, "Only if the key also opens the biscuit tin."),
                    Reply(Intent.TELL, "The caretaker keeps a spare key for each flat on the ground floor."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "That is kind, good neighbours are worth a lot."),
            FollowUp(Intent.ASK, "I will listen more carefully to {noise} next time."),
            FollowUp(Intent.ADVISE, "I will write a friendly note about {noise} then."),
            FollowUp(Intent.DECLINE, "I see, then I have to find out who makes {noise}."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I bought ear plugs against {noise}."),
            FollowUp(Intent.JOKE, "Ha, the whole house would call the caretaker."),
            FollowUp(Intent.TELL, "Good to know, I did not know the house rules."),
            FollowUp(Intent.TELL, "Then I talk to the caretaker on {day}."),
        ),
        later=(
            "The walls in this house are thin as paper.",
            "A house meeting of all the neighbours is planned for {day}.",
            "My last neighbour played the drums, so I am patient.",
            "The stairwell light is broken again, too.",
            "We could all have a coffee in the yard and get to know each other.",
        ),
        closings=("Good night, and I hope the house stays quiet.", "Thanks, neighbour, see you in the stairwell."),
    ),
)
