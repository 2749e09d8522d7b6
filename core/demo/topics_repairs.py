"""What people say about things that are broken: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

REPAIRS = (
    Topic(
        name="plumbing",
        subject="the plumbing",
        has_desk=True,
        slots={
            "leak": (
                "the kitchen tap",
                "the shower head",
                "the toilet cistern",
                "the pipe under the sink",
                "the washing machine hose",
                "the bath drain",
            ),
        },
        openers=(
            Opener(
                says=("Water is dripping from {leak}.", "There is a puddle because {leak} leaks."),
                replies=(
                    Reply(Intent.ADVISE, "Turn off the main valve first and put a bucket under {leak}."),
                    Reply(
                        Intent.ASK,
                        "How much water comes from {leak}, drops or a stream?",
                        "Only drops, but the bucket is full by the evening.",
                    ),
                    Reply(Intent.TELL, "Mostly it is a worn rubber washer in {leak}, it costs almost nothing."),
                    Reply(
                        Intent.SYMPATHISE,
                        "What a mess, I hope the water from {leak} has not reached the neighbours below.",
                    ),
                    Reply(Intent.AGREE, "I had that too, {leak} dripped until the floor swelled."),
                    Reply(Intent.JOKE, "Some people pay for an indoor fountain, you have {leak}."),
                ),
            ),
            Opener(
                says=("Can a plumber come on {day} to fix {leak}?", "I need a plumber for {leak}, best on {day}."),
                replies=(
                    Reply(Intent.AGREE, "Yes, our plumber can look at {leak} on {day} between eight and {time}."),
                    Reply(Intent.DECLINE, "On {day} all our plumbers are booked, the first free visit is next week."),
                    Reply(
                        Intent.ASK,
                        "Is {leak} in a rented flat, and does the landlord know about it?",
                        "Rented, and the landlord asked me to call you.",
                    ),
                    Reply(Intent.TELL, "A visit of the plumber costs a fixed fee plus the parts for {leak}."),
                    Reply(Intent.ADVISE, "Send us a photo of {leak}, so the plumber brings the right parts."),
                    Reply(
                        Intent.JOKE,
                        "The plumber comes when the bath is finally over the edge, they have a sense for it.",
                    ),
                ),
            ),
            Opener(
                says=("The drain in the bathroom is blocked.", "The water in the shower no longer drains."),
                replies=(
                    Reply(Intent.ADVISE, "Pour baking soda and vinegar into the drain and rinse with hot water."),
                    Reply(Intent.TELL, "Usually it is hair in the trap, you can unscrew the drain by hand."),
                    Reply(
                        Intent.ASK,
                        "Does the sink gurgle too when the shower is blocked?",
                        "Yes, it gurgles like a frog.",
                    ),
                    Reply(Intent.DECLINE, "Please no chemicals in the drain, they attack the old pipes."),
                    Reply(Intent.AGREE, "Ours is blocked as well, so it may be the main pipe of the house."),
                    Reply(Intent.SYMPATHISE, "Standing in dirty shower water is horrid, I feel with you."),
                ),
            ),
            Opener(
                says=(
                    "The landlord ignores my messages about {leak}.",
                    "I told the landlord about {leak} twice, no answer.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Send the landlord a registered letter about {leak} with a deadline."),
                    Reply(Intent.SYMPATHISE, "That is maddening, {leak} gets worse each day and nobody reacts."),
                    Reply(Intent.TELL, "You may pay less rent while {leak} is not repaired, ask the tenants' office."),
                    Reply(
                        Intent.ASK,
                        "When did you first report {leak} to the landlord?",
                        "Three weeks ago, in writing and with a photo.",
                    ),
                    Reply(Intent.AGREE, "My landlord is the same, with him only a phone call helps."),
                    Reply(Intent.JOKE, "Send the landlord a bottle filled by {leak}."),
                ),
            ),
            Opener(
                says=("Can I replace {leak} myself?", "Is it hard to change {leak} without a plumber?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, with a wrench and some tape you can replace {leak} in an hour."),
                    Reply(Intent.DECLINE, "I would leave {leak} to a plumber, a flood costs more than the bill."),
                    Reply(
                        Intent.ADVISE,
                        "Close the valve, take a photo before you unscrew {leak}, and keep the old washer.",
                    ),
                    Reply(
                        Intent.ASK,
                        "Do you have a pipe wrench that fits {leak}?",
                        "Only pliers, but my {kin} owns a whole toolbox.",
                    ),
                    Reply(Intent.TELL, "New parts for {leak} are in the hardware shop next to the paint."),
                    Reply(Intent.JOKE, "You can, but put on a swimsuit before you open {leak}."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Good, so the flood around {leak} will soon be over."),
            FollowUp(Intent.ASK, "I will measure how much water comes from {leak} and tell you."),
            FollowUp(Intent.ADVISE, "I turn the valve now and put a bucket there."),
            FollowUp(Intent.DECLINE, "Then I call another plumber about {leak}."),
            FollowUp(Intent.SYMPATHISE, "Thanks, the floor is wet but the carpet is saved."),
            FollowUp(Intent.JOKE, "Ha, I charge entrance for the fountain then."),
            FollowUp(Intent.TELL, "So it is only a washer, and I feared a burst pipe."),
            FollowUp(Intent.TELL, "Then I send the photo of {leak} right away."),
        ),
        later=(
            "The water meter keeps turning even at night.",
            "An old towel around the pipe helps until the plumber comes.",
            "The pipes in this house are older than my grandparents.",
            "The plumber left his wrench here last time.",
            "After the repair the tap runs without a sound.",
        ),
        closings=("Thank you, I wait for the plumber then.", "I have to empty the bucket, bye!"),
    ),
    Topic(
        name="heating",
        subject="the heating",
        has_desk=True,
        slots={
            "room": ("the bedroom", "the living room", "the bathroom", "the office", "the nursery", "the hall"),
        },
        openers=(
            Opener(
                says=("The radiator in {room} stays cold.", "{room} does not get warm although the radiator is open."),
                replies=(
                    Reply(Intent.ADVISE, "Bleed the radiator in {room}, there is probably air inside."),
                    Reply(
                        Intent.ASK,
                        "Is only {room} cold, or the other radiators too?",
                        "Only this one, the others are hot.",
                    ),
                    Reply(Intent.TELL, "The valve sticks after the summer, a tap with a hammer frees the radiator."),
                    Reply(Intent.SYMPATHISE, "Brr, a cold {room} in {month} is no fun at all."),
                    Reply(Intent.AGREE, "Our radiator in {room} is cold as well, so it must be the boiler."),
                    Reply(Intent.JOKE, "Invite more people into {room}, they heat better than the radiator."),
                ),
            ),
            Opener(
                says=("When do you turn the heating on?", "Is it too early in {month} to turn the heating on?"),
                replies=(
                    Reply(
                        Intent.TELL,
                        "The house turns the heating on when it is below twelve degrees for three days.",
                    ),
                    Reply(Intent.DECLINE, "Too early, I wear a thick pullover until the end of {month}."),
                    Reply(Intent.AGREE, "I turned the heating on yesterday, {room} was like a cave."),
                    Reply(Intent.ADVISE, "Heat {room} only in the evening, that saves a third of the bill."),
                    Reply(
                        Intent.ASK,
                        "Do you pay for the heating by meter or at a flat rate?",
                        "By meter, that's why I hesitate.",
                    ),
                    Reply(Intent.JOKE, "I turn the heating on when the cat moves under my blanket."),
                ),
            ),
            Opener(
                says=("The heating bill is twice as high as last year.", "I got a shocking bill for the heating."),
                replies=(
                    Reply(Intent.SYMPATHISE, "That is a shock, twice the heating bill for the same flat."),
                    Reply(Intent.ADVISE, "Compare the meter readings, sometimes the heating bill has a wrong number."),
                    Reply(
                        Intent.ASK,
                        "Did you air {room} with the window tilted all day?",
                        "Maybe too often, I like fresh air.",
                    ),
                    Reply(Intent.TELL, "Each degree less in {room} cuts the heating bill by six per cent."),
                    Reply(Intent.AGREE, "Ours doubled too, the price of gas went up in {month}."),
                    Reply(Intent.DECLINE, "Twice is normal now, my heating bill even tripled."),
                ),
            ),
            Opener(
                says=(
                    "Can somebody check our boiler on {day}?",
                    "Our boiler makes strange noises, can you come on {day}?",
                ),
                replies=(
                    Reply(Intent.AGREE, "Yes, a technician can check the boiler on {day} before {time}."),
                    Reply(
                        Intent.ASK,
                        "Which number does the display of the boiler show?",
                        "It flashes a seven and then a letter.",
                    ),
                    Reply(Intent.DECLINE, "On {day} nobody is free, but in an emergency we check the boiler at night."),
                    Reply(Intent.ADVISE, "Switch the boiler off and on again and look at the water pressure."),
                    Reply(Intent.TELL, "The yearly boiler service is due anyway, the technician does both at once."),
                    Reply(Intent.JOKE, "The boiler hums because it is happy that winter is here."),
                ),
            ),
            Opener(
                says=("I am thinking of buying a small stove for {room}.", "A wood stove in {room} would be nice."),
                replies=(
                    Reply(Intent.ADVISE, "Ask the chimney sweep before you buy a stove for {room}."),
                    Reply(Intent.AGREE, "A stove makes {room} cosy, and the wood smells lovely."),
                    Reply(Intent.DECLINE, "I would not, a stove brings dust and ash into {room}."),
                    Reply(
                        Intent.ASK,
                        "Do you have a dry place for the wood for the stove?",
                        "Under the balcony there is space for two stacks.",
                    ),
                    Reply(Intent.TELL, "A stove for {room} needs a steel plate in front because of the sparks."),
                    Reply(Intent.JOKE, "Then we all move into {room} and leave the stove only in spring."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "So it isn't just my radiator, good to know."),
            FollowUp(Intent.ASK, "I look at the boiler display and tell you what it says."),
            FollowUp(Intent.ADVISE, "I will bleed the radiator in {room} tonight."),
            FollowUp(Intent.DECLINE, "Then I wear two pullovers in {room} for now."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I sit here with a blanket and hot tea."),
            FollowUp(Intent.JOKE, "Ha, {room} would be warm within minutes."),
            FollowUp(Intent.TELL, "That explains the cold in {room} every morning."),
            FollowUp(Intent.TELL, "Then I lower the heating by one degree."),
        ),
        later=(
            "A thick curtain keeps the cold away from {room}.",
            "The chimney sweep comes to the house on {day}.",
            "Warm feet are half the heating, my {kin} says.",
            "The windows in {room} need new seals before winter.",
            "A thermometer in {room} stops all arguments.",
        ),
        closings=("Stay warm, until the heating works again!", "Thank you, I wait for the technician."),
    ),
    Topic(
        name="phone-repair",
        subject="the phone repair",
        has_desk=True,
        slots={
            "fault": (
                "a cracked screen",
                "an empty battery after an hour",
                "a broken camera",
                "no sound",
                "a stuck button",
                "water inside",
            ),
            "wet": ("the sink", "a puddle", "the toilet", "the lake", "a bowl of soup", "the bath"),
        },
        openers=(
            Opener(
                says=("My phone has {fault}, can you repair it?", "Do you repair phones with {fault}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, we repair phones with {fault}, usually within two days."),
                    Reply(Intent.ASK, "How old is the phone with {fault}?", "Three years, and out of guarantee."),
                    Reply(Intent.DECLINE, "For {fault} a repair is no longer worth it with your phone."),
                    Reply(Intent.ADVISE, "Save your photos first, then bring us the phone with {fault}."),
                    Reply(Intent.TELL, "A phone with {fault} costs about eighty to repair, plus the part."),
                    Reply(Intent.SYMPATHISE, "How annoying, {fault} always comes when you need the phone."),
                ),
            ),
            Opener(
                says=("When can I collect my phone?", "Is my phone repaired yet? It had {fault}."),
                replies=(
                    Reply(Intent.AGREE, "Your phone is ready, please collect it before {time}."),
                    Reply(Intent.DECLINE, "Not yet, the part for your phone arrives on {day}."),
                    Reply(Intent.TELL, "We send you a text to your second number when the phone is done."),
                    Reply(
                        Intent.ASK,
                        "Do you have the repair slip for your phone?",
                        "It is on the fridge, I bring it.",
                    ),
                    Reply(Intent.ADVISE, "Bring the repair slip and a document when you collect the phone."),
                    Reply(Intent.SYMPATHISE, "I'm sorry for the delay, your phone is the next in the row."),
                ),
            ),
            Opener(
                says=("I dropped my phone into {wet}.", "My phone fell into {wet} on {day}."),
                replies=(
                    Reply(Intent.ADVISE, "Switch the phone off and don't charge it, then bring it to us."),
                    Reply(Intent.SYMPATHISE, "Oh dear, {wet} is not kind to a phone."),
                    Reply(Intent.DECLINE, "Rice does not help a wet phone, that is a legend."),
                    Reply(Intent.ASK, "How long was the phone in {wet}?", "Only a few seconds, I was quick."),
                    Reply(Intent.TELL, "After {wet} we open the phone and dry it with alcohol."),
                    Reply(Intent.JOKE, "Now it is a submarine with a camera."),
                    Reply(Intent.AGREE, "Mine fell into {wet} too, it survived with a rusty voice."),
                ),
            ),
            Opener(
                says=("The battery of my phone lasts only two hours.", "My phone is empty by noon."),
                replies=(
                    Reply(Intent.ADVISE, "Turn down the brightness and close the map, they eat the battery."),
                    Reply(Intent.TELL, "After three years the battery of a phone has half of its strength."),
                    Reply(Intent.ASK, "Do you charge the phone overnight at the bed?", "Every night, is that bad?"),
                    Reply(Intent.AGREE, "Mine is the same, I carry a charger in each bag."),
                    Reply(Intent.DECLINE, "It is not the battery, some program on the phone runs all the time."),
                    Reply(Intent.JOKE, "Long live the wall telephone with its cable."),
                ),
            ),
            Opener(
                says=("I forgot the code of my phone.", "My phone is locked and I don't know the code."),
                replies=(
                    Reply(Intent.ADVISE, "Try the phone on your computer at home, the code can be reset there."),
                    Reply(Intent.TELL, "After ten wrong codes the phone deletes everything."),
                    Reply(Intent.DECLINE, "Without a receipt we may not unlock a phone."),
                    Reply(
                        Intent.ASK,
                        "Did your {kin} ever use your phone and change the code?",
                        "My {kin} says no, with a red face.",
                    ),
                    Reply(Intent.SYMPATHISE, "That is nasty, a whole life is in such a phone."),
                    Reply(Intent.JOKE, "Have you tried your birthday and the name of the cat?"),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Good, then I bring the phone on {day}."),
            FollowUp(Intent.ASK, "I will look at the receipt of the phone."),
            FollowUp(Intent.ADVISE, "I do that before I bring the phone to you."),
            FollowUp(Intent.DECLINE, "Then I need a new phone, what a pity."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I feel naked without my phone."),
            FollowUp(Intent.JOKE, "Ha, the phone would not find that funny."),
            FollowUp(Intent.TELL, "That price for the phone is all right."),
        ),
        later=(
            "A case would have saved the phone.",
            "My old phone with keys is still working in the drawer.",
            "All my pictures of {month} are on that phone.",
            "You can reach me on the phone of my {kin}.",
            "The phone rings, but the screen stays black.",
        ),
        closings=("Thank you, the phone works again!", "I'll come by with the phone on {day}."),
    ),
    Topic(
        name="internet",
        subject="the internet connection",
        has_desk=True,
        slots={
            "device": ("the laptop", "the television", "the tablet", "the printer", "the game console", "the radio"),
        },
        openers=(
            Opener(
                says=("The internet has been down since {day}.", "Since {day} we have no internet at home."),
                replies=(
                    Reply(Intent.ADVISE, "Pull out the plug of the router, wait a minute, and start it again."),
                    Reply(
                        Intent.ASK,
                        "Which lights are blinking on the router?",
                        "The second one is red, the others are green.",
                    ),
                    Reply(Intent.TELL, "There is a fault in your street, the internet will be back by {time}."),
                    Reply(Intent.SYMPATHISE, "I'm sorry, without internet not even {device} is of any use."),
                    Reply(Intent.AGREE, "Ours is down too, the whole house has no internet."),
                    Reply(Intent.JOKE, "No internet, at last the family talks to each other."),
                ),
            ),
            Opener(
                says=("{device} can't find the wireless network.", "I can't connect {device} to the wireless network."),
                replies=(
                    Reply(Intent.ADVISE, "Restart {device} and type the network password again, slowly."),
                    Reply(
                        Intent.ASK,
                        "Does the network work on other devices than {device}?",
                        "On my phone yes, only {device} is stubborn.",
                    ),
                    Reply(Intent.TELL, "{device} is probably too far from the router, two walls are too many."),
                    Reply(Intent.DECLINE, "It is not the network, the aerial of {device} is broken."),
                    Reply(Intent.AGREE, "My {device} lost the network as well, since the last update."),
                    Reply(Intent.JOKE, "Perhaps {device} wants to be asked politely."),
                ),
            ),
            Opener(
                says=(
                    "The internet is so slow in the evening.",
                    "On {day} evening the internet is too slow for films.",
                ),
                replies=(
                    Reply(Intent.TELL, "In the evening the whole street is online, that makes the internet slow."),
                    Reply(Intent.ADVISE, "Connect {device} by cable, it is faster than through the air."),
                    Reply(
                        Intent.ASK,
                        "What speed does the contract for your internet promise?",
                        "Fifty, and I measured four.",
                    ),
                    Reply(Intent.AGREE, "In our flat it is slow as well, films stop every minute."),
                    Reply(Intent.SYMPATHISE, "How tiresome, a film in pieces is no pleasure."),
                    Reply(Intent.DECLINE, "With such an old router no internet is fast."),
                ),
            ),
            Opener(
                says=(
                    "When does the technician come for the new connection?",
                    "We wait for the technician for the internet.",
                ),
                replies=(
                    Reply(Intent.AGREE, "The technician is booked for you on {day} between eight and {time}."),
                    Reply(Intent.DECLINE, "There is no free technician before {month}, I'm sorry."),
                    Reply(
                        Intent.ASK,
                        "Is there a telephone socket in the room for the technician?",
                        "Behind the wardrobe, I think.",
                    ),
                    Reply(Intent.ADVISE, "Please be at home the whole morning, the technician calls shortly before."),
                    Reply(Intent.TELL, "The technician needs access to the cellar for the internet line."),
                    Reply(Intent.JOKE, "The technician is a myth, I have never seen one."),
                ),
            ),
            Opener(
                says=("How do I change the password of the router?", "I want a new password for our internet."),
                replies=(
                    Reply(Intent.TELL, "The password can be changed on the settings page of the router."),
                    Reply(Intent.ADVISE, "Choose a long password, four words that do not belong together."),
                    Reply(
                        Intent.ASK,
                        "Does somebody use your internet without asking?",
                        "I suspect the people upstairs.",
                    ),
                    Reply(Intent.AGREE, "I should change my password too, it is the name of the dog."),
                    Reply(Intent.DECLINE, "Leave the password, otherwise {device} and all the others are offline."),
                    Reply(Intent.JOKE, "My password is so good that I don't know it myself."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then it is the street and not our router."),
            FollowUp(Intent.ASK, "I go to the router and look at the lights."),
            FollowUp(Intent.ADVISE, "I pull the plug and try the internet again."),
            FollowUp(Intent.DECLINE, "Then I use the network of the library."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I read a book by candle light meanwhile."),
            FollowUp(Intent.JOKE, "Ha, we played cards because of that."),
            FollowUp(Intent.TELL, "Good to know, I wait until {time} for the internet."),
        ),
        later=(
            "The router is hot enough to fry an egg.",
            "My {kin} needs the internet for school.",
            "The cable runs across the whole hall.",
            "I write this from the cafe, because at home nothing works.",
            "The contract for the internet ends in {month}.",
        ),
        closings=("The internet is back, thank you!", "I restart the router now, so I'm gone for a minute."),
    ),
    Topic(
        name="printer",
        subject="the printer",
        has_desk=True,
        slots={
            "doc": (
                "the contract",
                "the timetable",
                "the invoice",
                "the concert ticket",
                "the thesis",
                "the invitation",
            ),
        },
        openers=(
            Opener(
                says=("The printer refuses to print {doc}.", "I can't print {doc}, the printer does nothing."),
                replies=(
                    Reply(Intent.ADVISE, "Delete all the waiting jobs, switch the printer off and send {doc} again."),
                    Reply(
                        Intent.ASK,
                        "Is there a message on the display of the printer?",
                        "It says that tray two is missing.",
                    ),
                    Reply(Intent.TELL, "The printer is out of black ink, so it refuses even {doc} in grey."),
                    Reply(Intent.SYMPATHISE, "Always when it is urgent, the printer must feel that you need {doc}."),
                    Reply(Intent.AGREE, "It ignored me this morning too, I copied {doc} by hand."),
                    Reply(Intent.JOKE, "Speak softly to the printer, it can smell fear."),
                ),
            ),
            Opener(
                says=("There is a paper jam and I can't find it.", "The printer says paper jam, but I see no paper."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Open the flap at the back of the printer, the paper hides behind the roller.",
                    ),
                    Reply(Intent.TELL, "A torn corner of paper is enough for the jam message."),
                    Reply(
                        Intent.ASK,
                        "Did you pull the paper out of the tray while it was printing {doc}?",
                        "Yes, I was in a hurry.",
                    ),
                    Reply(Intent.DECLINE, "Leave the jam alone, the technician comes on {day} anyway."),
                    Reply(Intent.AGREE, "The same jam is there every week, that printer is simply old."),
                    Reply(Intent.JOKE, "The printer ate your paper and now it is resting."),
                ),
            ),
            Opener(
                says=("Where can I print {doc} in colour?", "I need {doc} in colour, is there a colour printer?"),
                replies=(
                    Reply(Intent.TELL, "The colour printer is on the second floor next to the kitchen."),
                    Reply(Intent.ADVISE, "Save {doc} on a stick and take it to the copy shop."),
                    Reply(Intent.DECLINE, "Our colour printer is broken until {day}, only black works."),
                    Reply(Intent.ASK, "How many pages of {doc} do you need in colour?", "Twelve pages, on both sides."),
                    Reply(Intent.AGREE, "I have to print in colour as well, let's go there together."),
                    Reply(Intent.JOKE, "Print {doc} in grey and give everybody crayons."),
                ),
            ),
            Opener(
                says=("Which ink do I have to order for the printer?", "The printer needs new ink, which one is it?"),
                replies=(
                    Reply(Intent.TELL, "The number of the ink is on a sticker inside the front door of the printer."),
                    Reply(Intent.ADVISE, "Order the large ink, it lasts for two thousand pages."),
                    Reply(Intent.DECLINE, "Don't order ink, there are three packets in the cupboard."),
                    Reply(
                        Intent.ASK,
                        "Is it the black ink or all the colours that are empty?",
                        "Black and yellow are both at zero.",
                    ),
                    Reply(Intent.AGREE, "I wanted to order ink too, so let's share the delivery."),
                    Reply(Intent.JOKE, "For the price of the ink you could hire a painter."),
                ),
            ),
            Opener(
                says=("{doc} came out with stripes.", "The printer puts grey stripes across {doc}."),
                replies=(
                    Reply(Intent.ADVISE, "Start the cleaning programme of the printer twice, then the stripes vanish."),
                    Reply(Intent.TELL, "Stripes come from a dirty roller or from ink that has dried."),
                    Reply(
                        Intent.ASK,
                        "Are the stripes at the same place on each page of {doc}?",
                        "Always on the left side, about a thumb wide.",
                    ),
                    Reply(Intent.SYMPATHISE, "What a nuisance, {doc} with stripes can't be handed in."),
                    Reply(Intent.AGREE, "My pages have stripes as well, it must be the drum."),
                    Reply(Intent.JOKE, "Call it the zebra edition of {doc}."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "So it is the printer and not me, what a relief."),
            FollowUp(Intent.ASK, "One moment, I look at the display of the printer."),
            FollowUp(Intent.ADVISE, "I will open the printer and try it."),
            FollowUp(Intent.DECLINE, "Then {doc} has to wait for the technician."),
            FollowUp(Intent.SYMPATHISE, "Thank you, I was close to kicking the printer."),
            FollowUp(Intent.JOKE, "Ha, the printer has just spat out an empty page as an answer."),
            FollowUp(Intent.TELL, "Good, I go upstairs and print {doc} there."),
        ),
        later=(
            "Thick paper has to go through the tray on the side.",
            "Printing on both sides would save us half the paper.",
            "The printer wakes up with a groan every morning.",
            "I will send {doc} by mail, then nobody needs paper.",
        ),
        closings=("{doc} is printed, thank you for the help.", "The technician is here for the printer, bye."),
    ),
)
