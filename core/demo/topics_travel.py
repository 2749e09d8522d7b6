"""What people say about getting from place to place: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

TRAVEL = (
    Topic(
        name="commuting",
        subject="the commute",
        has_desk=True,
        slots={
            "line": (
                "the tram",
                "the number nine bus",
                "the night bus",
                "the suburban train",
                "the ferry",
                "the early train",
            ),
        },
        openers=(
            Opener(
                says=("{line} is late again.", "I have been waiting for {line} for half an hour."),
                replies=(
                    Reply(Intent.SYMPATHISE, "How annoying, standing on a cold platform and no {line} in sight."),
                    Reply(Intent.TELL, "There is a fault at a signal, {line} runs twenty minutes late."),
                    Reply(Intent.ADVISE, "Walk to the next stop, from there the replacement for {line} leaves."),
                    Reply(
                        Intent.ASK,
                        "Is it written on the board how late {line} is?",
                        "It jumps from five to fifteen minutes and back.",
                    ),
                    Reply(Intent.AGREE, "I wait for {line} as well, on the other side."),
                    Reply(Intent.JOKE, "{line} is not late, it is early for tomorrow."),
                ),
            ),
            Opener(
                says=("Is this seat on {line} free?", "Does anybody sit next to you here on {line}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, the seat is free, I only put my bag there."),
                    Reply(Intent.DECLINE, "Sorry, the seat is for my {kin}, who is buying a ticket."),
                    Reply(Intent.ADVISE, "Take the seat by the window, I get off at the next stop."),
                    Reply(
                        Intent.ASK,
                        "Would you rather have the seat facing forward?",
                        "Yes please, going backwards makes me sick.",
                    ),
                    Reply(Intent.JOKE, "The seat is free, but the song of the child behind you comes with it."),
                    Reply(Intent.TELL, "It is free until the museum, then a school class gets on {line}."),
                ),
            ),
            Opener(
                says=("Where can I buy a ticket for {line}?", "Do I need to buy the ticket before I board {line}?"),
                replies=(
                    Reply(Intent.TELL, "Tickets for {line} come from the yellow machine on the platform."),
                    Reply(Intent.DECLINE, "The driver of {line} does not sell tickets any more."),
                    Reply(Intent.ADVISE, "Buy a day ticket, for two rides on {line} it is already cheaper."),
                    Reply(Intent.ASK, "Do you have coins for the ticket machine?", "Only a large note, I'm afraid."),
                    Reply(Intent.AGREE, "I need a ticket as well, come along to the machine."),
                    Reply(Intent.JOKE, "I have used {line} for years and still don't understand the tickets."),
                ),
            ),
            Opener(
                says=(
                    "I cycle to work in place of taking {line}.",
                    "Since {day} I go to work by bike and not with {line}.",
                ),
                replies=(
                    Reply(Intent.AGREE, "Good for you, I also sleep better since I left {line} for the bike."),
                    Reply(
                        Intent.ASK,
                        "How long does the way to work take you by bike?",
                        "Twenty five minutes, and {line} took forty.",
                    ),
                    Reply(Intent.DECLINE, "In {month} I would not cycle, {line} is warm at least."),
                    Reply(Intent.ADVISE, "Get a good lamp and a helmet for the way to work."),
                    Reply(Intent.JOKE, "And {line} misses you terribly."),
                    Reply(Intent.TELL, "On {day} the road to the bridge is closed for bikes."),
                ),
            ),
            Opener(
                says=(
                    "{line} was so full that I had to stand for an hour.",
                    "I could not even move in {line} this morning.",
                ),
                replies=(
                    Reply(Intent.SYMPATHISE, "An hour of standing in {line}, your poor feet."),
                    Reply(Intent.ADVISE, "Take {line} before seven, half of the seats are empty then."),
                    Reply(Intent.TELL, "They want to add a second carriage to {line} from {month}."),
                    Reply(
                        Intent.ASK,
                        "Is {line} always that full or only on {day}?",
                        "Mainly on {day}, when the students go home.",
                    ),
                    Reply(Intent.AGREE, "I stood too, with an elbow in my ribs the whole way."),
                    Reply(Intent.JOKE, "In {line} you get to know people without a word."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "So we can complain about {line} together."),
            FollowUp(Intent.ASK, "I look at the timetable of {line} and tell you."),
            FollowUp(Intent.ADVISE, "I try that tomorrow, the commute can only get better."),
            FollowUp(Intent.DECLINE, "Then I stand and read the adverts."),
            FollowUp(Intent.SYMPATHISE, "Thanks, at least I have an audio book for {line}."),
            FollowUp(Intent.JOKE, "Ha, they should print that in the timetable of {line}."),
            FollowUp(Intent.TELL, "Good to know, then I leave home ten minutes earlier."),
        ),
        later=(
            "Someone eats onions in {line} every single morning.",
            "The inspector on {line} always wishes a good day.",
            "A monthly ticket pays off after three weeks.",
            "I get my best ideas while I look out of {line}.",
            "In the tunnel the phone has no signal.",
        ),
        closings=("{line} is coming, talk to you later!", "I have to get off here, bye."),
    ),
    Topic(
        name="holidays",
        subject="the holidays",
        slots={
            "dest": (
                "the seaside",
                "the big lake",
                "the mountain farm",
                "the beach house",
                "the south coast",
                "the vineyard",
                "the harbour town",
            ),
        },
        openers=(
            Opener(
                says=(
                    "We are going to {dest} in {month}.",
                    "In {month} we spend two weeks at {dest}, finally holidays.",
                ),
                replies=(
                    Reply(Intent.AGREE, "How lovely, in {month} the light at {dest} is wonderful."),
                    Reply(Intent.ASK, "Are you going to {dest} by train or by car?", "By train, with only one change."),
                    Reply(Intent.ADVISE, "Take warm clothes along, at {dest} the evenings in {month} are cool."),
                    Reply(Intent.DECLINE, "I would not go to {dest} in {month}, half of the country is there."),
                    Reply(Intent.JOKE, "Please take me to {dest} in your suitcase."),
                    Reply(Intent.TELL, "My {kin} was at {dest} in {month} and came back with a sunburn."),
                ),
            ),
            Opener(
                says=("I don't know where to go for the holidays.", "Where would you spend the holidays this year?"),
                replies=(
                    Reply(Intent.ADVISE, "Go to {dest}, you can walk all day there and hear only birds."),
                    Reply(Intent.AGREE, "I can't decide on a holiday either, maybe we should stay at home."),
                    Reply(
                        Intent.ASK,
                        "Do you want holidays with rest or with adventure?",
                        "Rest, a hammock and nothing else.",
                    ),
                    Reply(Intent.TELL, "In {month} {dest} is cheap, the season begins later."),
                    Reply(Intent.DECLINE, "Not {dest} again, I need something new for my holidays."),
                    Reply(Intent.JOKE, "My bank account recommends holidays on the balcony."),
                ),
            ),
            Opener(
                says=("What should I pack for {dest}?", "I'm packing for {dest}, what must not be missing?"),
                replies=(
                    Reply(Intent.ADVISE, "Pack sun cream, a hat, and fewer shoes than you think for {dest}."),
                    Reply(Intent.TELL, "A first aid kit and a second pair of glasses belong in the suitcase."),
                    Reply(
                        Intent.ASK,
                        "How many days are you going to stay at {dest}?",
                        "Ten days, and we can wash clothes there.",
                    ),
                    Reply(Intent.AGREE, "I pack for {dest} as well and my suitcase does not close."),
                    Reply(Intent.DECLINE, "Nothing special, at {dest} they sell everything you forget."),
                    Reply(Intent.JOKE, "An empty suitcase for the souvenirs from {dest}."),
                ),
            ),
            Opener(
                says=("How were your holidays at {dest}?", "Are you back from {dest}, how was it?"),
                replies=(
                    Reply(Intent.TELL, "It rained for half of the holidays, but {dest} was beautiful anyway."),
                    Reply(Intent.AGREE, "Wonderful, {dest} was quiet and the food was a dream."),
                    Reply(Intent.DECLINE, "A disappointment, there was a building site next to our house at {dest}."),
                    Reply(Intent.ASK, "Didn't you get my postcard from {dest}?", "No, the letter box is empty."),
                    Reply(Intent.JOKE, "The mosquitoes at {dest} send you their regards."),
                    Reply(Intent.ADVISE, "You have to go to {dest} yourself, photos can't show it."),
                ),
            ),
            Opener(
                says=(
                    "Who looks after the flat when we are at {dest}?",
                    "We're off to {dest} and nobody waters our plants.",
                ),
                replies=(
                    Reply(Intent.AGREE, "I can do it, I am at home while you enjoy your holidays."),
                    Reply(Intent.DECLINE, "Sorry, in {month} I am on holidays as well."),
                    Reply(Intent.ADVISE, "Ask the neighbour and bring back something sweet from {dest}."),
                    Reply(
                        Intent.ASK,
                        "Does the cat need to be fed while you are at {dest}?",
                        "Twice a day, the food stands next to the door.",
                    ),
                    Reply(Intent.TELL, "My {kin} would move into your flat for those two weeks."),
                    Reply(Intent.JOKE, "The plants could come to {dest} with you, they need a holiday as well."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "I'm already counting the days until the holidays."),
            FollowUp(Intent.ASK, "I have to ask the others before we book {dest}."),
            FollowUp(Intent.ADVISE, "Good tip, I add it to the packing list for {dest}."),
            FollowUp(Intent.DECLINE, "Then we take another look at the holiday brochure."),
            FollowUp(Intent.SYMPATHISE, "Thanks, next year it will be {dest} with sunshine."),
            FollowUp(Intent.JOKE, "Ha, the suitcase is too small for you."),
            FollowUp(Intent.TELL, "That sounds just right for our holidays."),
        ),
        later=(
            "The guide book for {dest} lies on my night table.",
            "I will write you a postcard from {dest}.",
            "We always forget the charger on holidays.",
            "The way to {dest} takes nine hours with breaks.",
            "On the last day of the holidays I want ice cream.",
        ),
        closings=("Enjoy the holidays, and send a picture from {dest}!", "I have to close the suitcase, bye."),
    ),
    Topic(
        name="hotel",
        subject="the hotel",
        has_desk=True,
        slots={
            "wish": (
                "a quiet room",
                "a room with a balcony",
                "a room on the ground floor",
                "a room with a bath",
                "a family room",
                "a room facing the garden",
            ),
        },
        openers=(
            Opener(
                says=("I'd like to book {wish} from {day}.", "Do you have {wish} free from {day}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, {wish} is free from {day}, shall I book it for you?"),
                    Reply(Intent.DECLINE, "I'm afraid {wish} is not free from {day}, only one facing the street."),
                    Reply(Intent.ASK, "For how many nights do you need {wish}?", "For three nights, for two adults."),
                    Reply(Intent.TELL, "{wish} costs twelve more a night, breakfast is included."),
                    Reply(Intent.ADVISE, "Book {wish} today, from {day} there is a fair in town."),
                    Reply(Intent.JOKE, "We do have {wish}, if you don't mind our talking parrot."),
                ),
            ),
            Opener(
                says=("The room is too loud to sleep in.", "I can't sleep in my hotel room, the street is so loud."),
                replies=(
                    Reply(Intent.SYMPATHISE, "We are very sorry about the noise, you should sleep well with us."),
                    Reply(Intent.AGREE, "That is true, since the building work started the front rooms are loud."),
                    Reply(Intent.ADVISE, "Take the key to {wish} on the other side, we carry your suitcase."),
                    Reply(
                        Intent.ASK,
                        "Is it the street or the lift that is so loud in your room?",
                        "The lift, it rumbles until two.",
                    ),
                    Reply(Intent.TELL, "There are ear plugs at the hotel desk, and after midnight the bar closes."),
                    Reply(Intent.DECLINE, "Tonight the hotel is full, but from {day} we can give you {wish}."),
                ),
            ),
            Opener(
                says=("Until when is breakfast served in the hotel?", "When can we have breakfast on {day}?"),
                replies=(
                    Reply(Intent.TELL, "Breakfast is served from seven to half past ten, on {day} until eleven."),
                    Reply(Intent.ADVISE, "Come to breakfast before nine, then the rolls are still warm."),
                    Reply(Intent.ASK, "Would you like your breakfast in the room?", "Yes please, with tea and an egg."),
                    Reply(Intent.DECLINE, "There is no breakfast in the hotel on {day}, the cafe next door is open."),
                    Reply(Intent.AGREE, "Breakfast is included in {wish}, just say your room number."),
                    Reply(Intent.JOKE, "Breakfast ends when my colleague has eaten the last pancake."),
                ),
            ),
            Opener(
                says=(
                    "Can we leave our suitcases here after we check out?",
                    "Where can I leave my luggage until {time}?",
                ),
                replies=(
                    Reply(Intent.AGREE, "Of course, the hotel keeps your luggage in a locked room."),
                    Reply(Intent.TELL, "The luggage room is beside the lift and costs nothing for guests."),
                    Reply(Intent.DECLINE, "We have no room for luggage, but there are lockers at the station."),
                    Reply(
                        Intent.ASK,
                        "When will you collect the luggage on {day}?",
                        "Shortly before {time}, our train leaves later.",
                    ),
                    Reply(Intent.ADVISE, "Please put your room number on each suitcase."),
                    Reply(Intent.JOKE, "We look after your suitcases as if they were our own, only less carelessly."),
                ),
            ),
            Opener(
                says=("The heating in our hotel room does not work.", "There is no hot water in our room."),
                replies=(
                    Reply(Intent.SYMPATHISE, "I apologise for the cold room, that must not happen in our hotel."),
                    Reply(Intent.ADVISE, "Turn the wheel under the window to the left, it is a bit hidden."),
                    Reply(
                        Intent.ASK,
                        "Did you have hot water in the room last night?",
                        "Last night yes, since this morning it is ice cold.",
                    ),
                    Reply(Intent.TELL, "The technician of the hotel is in the boiler room, it takes an hour."),
                    Reply(Intent.AGREE, "The whole second floor has no hot water, we are working on it."),
                    Reply(Intent.DECLINE, "We can't repair it before {day}, but {wish} upstairs is warm."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Perfect, then please book {wish} for us."),
            FollowUp(Intent.ASK, "I ask my {kin} and come back to the hotel desk."),
            FollowUp(Intent.ADVISE, "Thank you for the hint, we will do that."),
            FollowUp(Intent.DECLINE, "Then I look for another hotel near the station."),
            FollowUp(Intent.SYMPATHISE, "Thank you for your kind words, we try to sleep."),
            FollowUp(Intent.JOKE, "Ha, in this hotel nobody gets bored."),
            FollowUp(Intent.TELL, "Good, then we come down to the desk at {time}."),
        ),
        later=(
            "The pillows in this hotel are as soft as clouds.",
            "There is a map of the town at the hotel desk.",
            "A taxi to the station should be here at {time}.",
            "The view from {wish} is worth the money.",
            "Could we have two more towels for the room?",
        ),
        closings=("Thank you, we enjoyed our stay in the hotel.", "Have a safe journey home!"),
    ),
    Topic(
        name="car",
        subject="the car",
        has_desk=True,
        slots={
            "part": (
                "the clutch",
                "the exhaust",
                "the left headlight",
                "the battery",
                "the handbrake",
                "the window motor",
                "the spare wheel",
            ),
        },
        openers=(
            Opener(
                says=("My car won't start, I suspect {part}.", "The car doesn't start, could it be {part}?"),
                replies=(
                    Reply(Intent.ADVISE, "Try it with jump leads first, before the garage changes {part}."),
                    Reply(Intent.ASK, "Does the car make any sound when you turn the key?", "Only a tired click."),
                    Reply(Intent.TELL, "If the lights of the car are weak as well, it is rather the battery."),
                    Reply(Intent.SYMPATHISE, "And that in the morning, when you need the car for work."),
                    Reply(Intent.DECLINE, "It can't be {part}, with that the car would still start."),
                    Reply(Intent.JOKE, "Give the car a kind word and {part} some rest."),
                ),
            ),
            Opener(
                says=("How much does it cost to repair {part}?", "What would the garage charge for {part}?"),
                replies=(
                    Reply(Intent.TELL, "The garage takes about two hundred for {part}, work included."),
                    Reply(Intent.ADVISE, "Ask two garages for a price for {part}, they differ a lot."),
                    Reply(Intent.ASK, "How old is the car that needs {part}?", "Fourteen years, but it has few miles."),
                    Reply(Intent.DECLINE, "Repairing {part} is not worth it with such an old car."),
                    Reply(Intent.AGREE, "I had {part} repaired in {month}, it cost me a week's pay."),
                    Reply(Intent.JOKE, "For the price of {part} you could get a donkey."),
                ),
            ),
            Opener(
                says=("I scratched the car while parking.", "There is a long scratch on my car since {day}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "What a nuisance, the paint of your car was like new."),
                    Reply(Intent.ADVISE, "Polish the scratch first, many of them are only on the surface."),
                    Reply(
                        Intent.ASK,
                        "Did you scratch the car on a wall or on another car?",
                        "On the pillar in the underground car park.",
                    ),
                    Reply(Intent.TELL, "The insurance pays only if someone else scratched your car."),
                    Reply(Intent.AGREE, "That pillar got my car as well, twice."),
                    Reply(Intent.JOKE, "A scratch makes the car cheaper to lose."),
                ),
            ),
            Opener(
                says=("I need the car inspected before {month}.", "Can I bring my car for the inspection on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, bring the car on {day} at {time}, the inspection takes one hour."),
                    Reply(Intent.DECLINE, "On {day} the lift in our garage is broken, please choose another day."),
                    Reply(
                        Intent.ASK,
                        "Shall we check {part} at the inspection, too?",
                        "Yes, it has been squeaking lately.",
                    ),
                    Reply(Intent.ADVISE, "Clean the car before the inspection, the engineer is in a better mood."),
                    Reply(Intent.TELL, "For the inspection we need the papers of the car and the last report."),
                    Reply(Intent.JOKE, "Cross your fingers, my car failed because of {part}."),
                ),
            ),
            Opener(
                says=("Could you pick me up with the car?", "I'm stuck, could you drive and pick me up at {time}?"),
                replies=(
                    Reply(Intent.AGREE, "I'm getting into the car now, I'll be there in twenty minutes."),
                    Reply(Intent.DECLINE, "The car is at the garage because of {part}, please take a taxi."),
                    Reply(
                        Intent.ASK,
                        "Where exactly are you waiting, I need an address for the car?",
                        "In front of the cinema, under the clock.",
                    ),
                    Reply(Intent.ADVISE, "Wait inside, I'll honk when the car is at the door."),
                    Reply(Intent.TELL, "I only have time after {time}, before that I need the car myself."),
                    Reply(Intent.JOKE, "For a full tank I drive you to the moon."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "So it is a known problem with {part}."),
            FollowUp(Intent.ASK, "I look under the bonnet and tell you."),
            FollowUp(Intent.ADVISE, "I try that before I call the garage."),
            FollowUp(Intent.DECLINE, "Then I leave the car and go by bus."),
            FollowUp(Intent.SYMPATHISE, "Thanks, the car and I need a break from each other."),
            FollowUp(Intent.JOKE, "Ha, the car coughed when I read that aloud."),
            FollowUp(Intent.TELL, "Then I take the car to the garage on {day}."),
        ),
        later=(
            "The warning light of the car has been on for a year.",
            "Petrol costs more every week, I walk to the baker now.",
            "My {kin} can change {part} with closed eyes.",
            "The heating in the car blows only cold air.",
            "The winter tyres have to come on in {month}.",
        ),
        closings=("Thanks, I call the garage about {part}.", "Drive carefully!"),
    ),
    Topic(
        name="bicycle",
        subject="the bike",
        slots={
            "bpart": (
                "the front brake",
                "the chain",
                "the rear light",
                "the saddle",
                "the gears",
                "the bell",
                "the back tyre",
            ),
        },
        openers=(
            Opener(
                says=("{bpart} of my bike is broken.", "There is something wrong with {bpart} of my bike."),
                replies=(
                    Reply(Intent.ADVISE, "Bring the bike to the repair cafe on {day}, they fix {bpart} with you."),
                    Reply(
                        Intent.ASK,
                        "Since when has {bpart} been making trouble?",
                        "Since I rode over the kerb on {day}.",
                    ),
                    Reply(Intent.TELL, "A new part for {bpart} costs less than a pizza."),
                    Reply(Intent.AGREE, "On my bike {bpart} broke as well, the rain is to blame."),
                    Reply(Intent.DECLINE, "Don't ride the bike like that, with {bpart} it is dangerous."),
                    Reply(Intent.JOKE, "A bike without {bpart} is a modern work of art."),
                ),
            ),
            Opener(
                says=("I have a flat tyre.", "My bike has a flat tyre and I'm far from home."),
                replies=(
                    Reply(Intent.ADVISE, "Hold the tube under water, where it bubbles is the hole in the tyre."),
                    Reply(Intent.SYMPATHISE, "A flat tyre, and of course the pump is at home."),
                    Reply(Intent.ASK, "Do you have a repair kit for the tyre with you?", "Patches yes, but no glue."),
                    Reply(Intent.TELL, "The petrol station has air, perhaps the tyre holds until you are home."),
                    Reply(Intent.AGREE, "I had a flat tyre on {day}, the bridge is full of glass."),
                    Reply(Intent.JOKE, "It is only flat at the bottom."),
                ),
            ),
            Opener(
                says=("My bike was stolen at the station.", "Someone stole my bike on {day}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "That is horrible, you had only just repaired {bpart}."),
                    Reply(Intent.ADVISE, "Report the stolen bike to the police and give them the frame number."),
                    Reply(
                        Intent.ASK,
                        "Was the stolen bike locked to something?",
                        "To a fence, and the fence is gone as well.",
                    ),
                    Reply(Intent.TELL, "Many stolen bikes turn up at the flea market, look there on {day}."),
                    Reply(Intent.AGREE, "Mine was stolen at the same station, they need cameras there."),
                    Reply(Intent.DECLINE, "I never leave my bike at the station, the lock would not help."),
                ),
            ),
            Opener(
                says=("Which bike would you buy for the city?", "I need a new bike for going to work."),
                replies=(
                    Reply(Intent.ADVISE, "Buy a simple steel bike, thieves don't like it and it lasts."),
                    Reply(Intent.TELL, "An electric bike makes sense if there are hills on your way."),
                    Reply(Intent.ASK, "How far do you ride the bike each day?", "Eight kilometres, half of it uphill."),
                    Reply(Intent.DECLINE, "Don't buy a new one, a used bike with a good {bpart} is enough."),
                    Reply(Intent.AGREE, "I'm looking for a bike too, let's go to the shop together on {day}."),
                    Reply(Intent.JOKE, "The one that comes with a driver."),
                ),
            ),
            Opener(
                says=("Shall we go on a bike tour on {day}?", "Do you feel like a bike tour along the river?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, let's ride to the old mill and have cake there."),
                    Reply(Intent.DECLINE, "On {day} I can't, {bpart} of my bike has to be repaired first."),
                    Reply(
                        Intent.ASK,
                        "How long is the bike tour you have in mind?",
                        "About forty kilometres, but flat.",
                    ),
                    Reply(Intent.ADVISE, "Start the tour before ten, later there is wind from the front."),
                    Reply(Intent.TELL, "The path by the river is closed behind the bridge until {month}."),
                    Reply(Intent.JOKE, "With you I ride anywhere, mostly behind you."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "So {bpart} is a weak point of all bikes."),
            FollowUp(Intent.ASK, "I look at the bike in the yard and tell you."),
            FollowUp(Intent.ADVISE, "I get the tools and try it with {bpart}."),
            FollowUp(Intent.DECLINE, "Then I push the bike home."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I'm already missing my bike."),
            FollowUp(Intent.JOKE, "Ha, I hang the bike on the wall then."),
            FollowUp(Intent.TELL, "Good, I take the bike there on {day}."),
        ),
        later=(
            "A drop of oil on the chain works wonders.",
            "My helmet makes me look like a mushroom.",
            "The bike lane ends in front of a tree.",
            "The basket carries {bpart} and two bags of apples.",
            "In {month} I ride with gloves and a scarf.",
        ),
        closings=("Ride safely, and keep the lights on!", "I pump up the tyre and go, bye."),
    ),
)
