"""What people say about sport and games: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

LEISURE = (
    Topic(
        name="gym",
        subject="the gym",
        has_desk=True,
        slots={
            "sport": (
                "the rowing machine",
                "the spinning class",
                "weight training",
                "the yoga class",
                "the step class",
                "boxing",
            ),
        },
        openers=(
            Opener(
                says=("I started with {sport} at the gym on {day}.", "On {day} I tried {sport} at the gym."),
                replies=(
                    Reply(Intent.AGREE, "Well done, {sport} is the best thing for a strong back."),
                    Reply(
                        Intent.ASK,
                        "How was {sport}, do your muscles hurt?",
                        "I can hardly climb the stairs to my flat.",
                    ),
                    Reply(Intent.ADVISE, "Start slowly with {sport}, twice a week is enough in the first month."),
                    Reply(Intent.DECLINE, "{sport} was never for me, I get bored after ten minutes."),
                    Reply(Intent.JOKE, "I also do {sport}, mainly by looking at others."),
                    Reply(Intent.TELL, "For {sport} the trainer of the gym offers a free first lesson."),
                ),
            ),
            Opener(
                says=("How can I cancel my gym contract?", "I want to cancel my membership in the gym."),
                replies=(
                    Reply(Intent.TELL, "The gym contract can be cancelled three months before its end, in writing."),
                    Reply(Intent.DECLINE, "An early end is not possible, your gym contract runs until {month}."),
                    Reply(
                        Intent.ASK,
                        "Why do you want to cancel, is something wrong at the gym?",
                        "I am moving to another town in {month}.",
                    ),
                    Reply(Intent.ADVISE, "Ask for a break in the contract, then you pay nothing while you are away."),
                    Reply(Intent.SYMPATHISE, "We are sorry that you leave the gym, we will miss you at {sport}."),
                    Reply(Intent.JOKE, "Cancelling is the hardest exercise in the whole gym."),
                ),
            ),
            Opener(
                says=("Would you come to {sport} with me?", "Do you feel like joining me at {sport} on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, with you I might even enjoy {sport}."),
                    Reply(Intent.DECLINE, "Not on {day}, and my knee does not like {sport}."),
                    Reply(
                        Intent.ASK,
                        "Do I need special shoes for {sport}?",
                        "Clean indoor shoes and a towel are enough.",
                    ),
                    Reply(Intent.ADVISE, "Book us two places in {sport}, it fills up quickly."),
                    Reply(Intent.TELL, "I already go to {sport} on {day}, the evening group is friendly."),
                    Reply(Intent.JOKE, "I come along to {sport} as your photographer."),
                ),
            ),
            Opener(
                says=("I never have the energy for the gym after work.", "After work I'm too tired for the gym."),
                replies=(
                    Reply(Intent.ADVISE, "Pack the gym bag in the morning and go straight there after work."),
                    Reply(Intent.AGREE, "Same here, once on the sofa the gym is out of reach."),
                    Reply(Intent.TELL, "I go to the gym before work, at six it is empty."),
                    Reply(Intent.SYMPATHISE, "With your long days I would be too tired for the gym as well."),
                    Reply(Intent.DECLINE, "Tired is just in the head, after ten minutes of {sport} it is gone."),
                    Reply(
                        Intent.ASK,
                        "How about the lunch break, is the gym near your office?",
                        "Ten minutes on foot, that could work.",
                    ),
                ),
            ),
            Opener(
                says=("My shoulder hurts after {sport}.", "I hurt my shoulder at {sport}."),
                replies=(
                    Reply(Intent.ADVISE, "Cool the shoulder and leave out {sport} for a week."),
                    Reply(Intent.SYMPATHISE, "Ouch, a sore shoulder makes even brushing your hair hard."),
                    Reply(
                        Intent.ASK,
                        "Can you lift the arm above the shoulder?",
                        "Only with pain, and not all the way.",
                    ),
                    Reply(Intent.TELL, "A trainer should check how you do {sport}, mostly the shoulder is turned in."),
                    Reply(Intent.AGREE, "My shoulder hurt in the first weeks of {sport} too."),
                    Reply(Intent.JOKE, "Your shoulder wants to cancel the gym before you do."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Nice, then we sweat together at {sport}."),
            FollowUp(Intent.ASK, "I ask the trainer about {sport} on {day}."),
            FollowUp(Intent.ADVISE, "I will do that and take {sport} more slowly."),
            FollowUp(Intent.DECLINE, "Then I go to {sport} without you and show off later."),
            FollowUp(Intent.SYMPATHISE, "Thanks, a hot bath helps my tired muscles."),
            FollowUp(Intent.JOKE, "Ha, watching {sport} burns no calories, I'm afraid."),
            FollowUp(Intent.TELL, "Then I look at the plan of the gym for {day}."),
        ),
        later=(
            "The mirrors in the gym are kinder in the evening.",
            "A banana before {sport} gives me enough power.",
            "Someone always leaves the weights lying around.",
            "The showers of the gym are cold again.",
            "After a month of {sport} my trousers fit better.",
        ),
        closings=("See you at the gym, bring water!", "I have to go, {sport} starts in ten minutes."),
    ),
    Topic(
        name="running",
        subject="the run",
        slots={
            "dist": (
                "five kilometres",
                "ten kilometres",
                "the half marathon",
                "the charity run",
                "the forest loop",
                "the river path",
            ),
        },
        openers=(
            Opener(
                says=("I'm training for {dist} on {day}.", "I want to run {dist} on {day}."),
                replies=(
                    Reply(Intent.AGREE, "Respect, {dist} is a fine goal, I ran it last year."),
                    Reply(Intent.ADVISE, "Don't train on the last day before {dist}, rest and eat noodles."),
                    Reply(Intent.ASK, "What time do you hope to run at {dist}?", "I just want to arrive with a smile."),
                    Reply(Intent.DECLINE, "I would not run {dist} yet, your knee has only just healed."),
                    Reply(Intent.JOKE, "I'll cheer you on at {dist} with a sausage in my hand."),
                    Reply(Intent.TELL, "The start of {dist} is at {time} behind the sports hall."),
                ),
            ),
            Opener(
                says=("My running shoes give me blisters.", "I get blisters on every run in my new running shoes."),
                replies=(
                    Reply(Intent.ADVISE, "Put tape on your heels and wear thin socks under the thick ones."),
                    Reply(
                        Intent.ASK,
                        "Did you buy the running shoes a size larger than normal?",
                        "No, exactly my size, that may be the reason.",
                    ),
                    Reply(Intent.TELL, "New running shoes need a few short runs before {dist}."),
                    Reply(Intent.SYMPATHISE, "Blisters spoil even the nicest run, poor feet."),
                    Reply(Intent.AGREE, "Mine rubbed too, the shop took the running shoes back."),
                    Reply(Intent.JOKE, "Run barefoot, then only the road gets blisters."),
                ),
            ),
            Opener(
                says=(
                    "I get a stitch in my side after ten minutes of running.",
                    "Why do I always get a stitch when I run?",
                ),
                replies=(
                    Reply(Intent.TELL, "A stitch often comes from eating less than two hours before the run."),
                    Reply(Intent.ADVISE, "Breathe out on every third step and press your hand on the stitch."),
                    Reply(
                        Intent.ASK,
                        "Do you drink much before you start running?",
                        "Half a litre of juice, is that too much?",
                    ),
                    Reply(Intent.DECLINE, "It isn't the food, you simply start the run too fast."),
                    Reply(Intent.AGREE, "I had a stitch on every run, slow starting cured it."),
                    Reply(Intent.JOKE, "A stitch in time saves nine kilometres."),
                ),
            ),
            Opener(
                says=("Do you want to run with me before work?", "Shall we run {dist} together on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, ring my bell at six and we run along the river."),
                    Reply(Intent.DECLINE, "Before work I am no human being, let alone a runner."),
                    Reply(
                        Intent.ASK,
                        "How fast do you run, I need seven minutes for a kilometre?",
                        "About the same, and I like to chat on the way.",
                    ),
                    Reply(Intent.ADVISE, "Bring a head lamp, on the river path it is still dark."),
                    Reply(Intent.TELL, "On {day} I always run with the group at the town park."),
                    Reply(Intent.JOKE, "Only if we run to the bakery."),
                ),
            ),
            Opener(
                says=("Running in the rain is awful.", "It pours and I should go for my run."),
                replies=(
                    Reply(Intent.DECLINE, "I love running in the rain, you have the whole path to yourself."),
                    Reply(Intent.ADVISE, "Wear a cap with your running jacket, then the rain stays out of your eyes."),
                    Reply(Intent.AGREE, "Awful indeed, I came home from my run with water in the shoes."),
                    Reply(Intent.TELL, "There is a covered track in the sports hall for rainy runs."),
                    Reply(
                        Intent.ASK,
                        "Can you move the run to the evening, when the rain stops?",
                        "In the evening I look after the children.",
                    ),
                    Reply(Intent.JOKE, "In the rain everyone runs faster, so it is good training."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Great, a run is easier with company."),
            FollowUp(Intent.ASK, "I think about it on my next slow run."),
            FollowUp(Intent.ADVISE, "I will try that on the next run."),
            FollowUp(Intent.DECLINE, "Then I run alone with loud music."),
            FollowUp(Intent.SYMPATHISE, "Thanks, my feet rest on a cushion now."),
            FollowUp(Intent.JOKE, "Ha, the bakery would be a real motivation to run."),
            FollowUp(Intent.TELL, "Then I start slowly and save my strength for {dist}."),
        ),
        later=(
            "My watch counts every step except the ones to the fridge.",
            "The last part of {dist} goes uphill, sadly.",
            "A dog ran beside me for half of the way.",
            "After the run I could eat a whole pan of pancakes.",
            "Stretching takes five minutes and saves a week of pain.",
        ),
        closings=("See you at the start of {dist}!", "I tie my running shoes now, bye."),
    ),
    Topic(
        name="swimming-pool",
        subject="the swimming pool",
        has_desk=True,
        slots={
            "stroke": ("breaststroke", "backstroke", "front crawl", "diving", "water polo", "aqua fitness"),
        },
        openers=(
            Opener(
                says=("When is the pool open on {day}?", "Until when can I swim on {day}?"),
                replies=(
                    Reply(Intent.TELL, "On {day} the pool is open from seven until {time}."),
                    Reply(Intent.DECLINE, "On {day} the pool is closed for a competition."),
                    Reply(
                        Intent.ASK,
                        "Do you want to swim in the big pool or with children in the small one?",
                        "In the big pool, for an hour.",
                    ),
                    Reply(Intent.ADVISE, "Come before nine, on {day} the pool gets crowded later."),
                    Reply(Intent.AGREE, "I wanted to swim on {day} too, the gate opens at seven."),
                    Reply(Intent.JOKE, "The pool is open, the changing rooms are only for the brave."),
                ),
            ),
            Opener(
                says=("I want to learn {stroke}.", "Is there a course for {stroke} at the pool?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, the course for {stroke} starts in {month} and has two places left."),
                    Reply(Intent.ADVISE, "Learn {stroke} with a teacher, bad habits in the water stay for ever."),
                    Reply(
                        Intent.ASK,
                        "Can you already swim, or do you begin with {stroke}?",
                        "I can swim, but like a dog.",
                    ),
                    Reply(Intent.DECLINE, "There is no course for {stroke} at our pool, only in the next town."),
                    Reply(Intent.TELL, "For {stroke} you need ten lessons, says the pool attendant."),
                    Reply(Intent.JOKE, "I learned {stroke} when my {kin} pushed me in."),
                ),
            ),
            Opener(
                says=("The water in the pool is freezing.", "The pool was ice cold on {day}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Brr, twenty degrees is too cold for a long swim."),
                    Reply(Intent.ADVISE, "Jump in at once and do {stroke}, after two lengths it feels warm."),
                    Reply(Intent.TELL, "The heating of the pool broke, they repair it until {day}."),
                    Reply(Intent.AGREE, "I found the water freezing too, my lips were blue."),
                    Reply(Intent.DECLINE, "For {stroke} cold water is ideal, you only have to move."),
                    Reply(Intent.JOKE, "They keep the penguins happy."),
                ),
            ),
            Opener(
                says=("I lost my locker key in the pool.", "My swimming goggles are somewhere in the pool."),
                replies=(
                    Reply(Intent.ADVISE, "Ask the attendant, he dives for lost things with a long net."),
                    Reply(Intent.SYMPATHISE, "What bad luck, standing there wet and without your clothes."),
                    Reply(Intent.TELL, "Lost things from the pool lie in a basket at the cash desk."),
                    Reply(
                        Intent.ASK,
                        "At which end of the pool did you lose it?",
                        "At the deep end, while doing {stroke}.",
                    ),
                    Reply(Intent.AGREE, "My ring got lost in the pool too, it was in the filter."),
                    Reply(Intent.JOKE, "A reward for the fastest diver always helps."),
                ),
            ),
            Opener(
                says=("Are you coming for a swim before work?", "Let's go to the pool on {day} and practise {stroke}."),
                replies=(
                    Reply(Intent.AGREE, "Yes, at seven in front of the pool, I bring the towels."),
                    Reply(Intent.DECLINE, "I have a cold, so no swimming until {day}."),
                    Reply(Intent.ASK, "Shall we swim laps or only splash about?", "Twenty laps and then the hot tub."),
                    Reply(Intent.ADVISE, "Take the ten times card for the pool, it is cheaper for two."),
                    Reply(Intent.TELL, "My swimsuit is still wet from yesterday, but I come."),
                    Reply(Intent.JOKE, "I sit in the hot tub and judge your {stroke}."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Great, then we share a lane in the pool."),
            FollowUp(Intent.ASK, "I ask at the pool and tell you."),
            FollowUp(Intent.ADVISE, "I try that with {stroke} next time."),
            FollowUp(Intent.DECLINE, "Then I go to the lake for a swim."),
            FollowUp(Intent.SYMPATHISE, "Thanks, a hot shower brought me back to life."),
            FollowUp(Intent.JOKE, "Ha, I nearly swallowed water."),
            FollowUp(Intent.TELL, "Good to know, I pack my swimsuit."),
        ),
        later=(
            "My hair is green from the water of the pool.",
            "The slide is only for children, officially.",
            "After {stroke} I eat chips, always.",
            "The pool smells like my school days.",
            "Water in the ear makes me deaf for a day.",
        ),
        closings=("See you at the pool, don't forget the towel!", "I have to dry my hair, bye."),
    ),
    Topic(
        name="game-night",
        subject="the game night",
        slots={
            "game": (
                "chess",
                "the card game with the dragons",
                "dominoes",
                "the railway game",
                "charades",
                "the word puzzle",
                "table tennis",
            ),
            "snack": ("popcorn", "cheese sticks", "peanuts", "grapes", "salted biscuits"),
        },
        openers=(
            Opener(
                says=("Do you want to play {game} on {day}?", "We need one more person for {game} on {day}."),
                replies=(
                    Reply(Intent.AGREE, "Yes, count me in, I have not played {game} for ages."),
                    Reply(Intent.DECLINE, "No thanks, I lose at {game} each time and then I sulk."),
                    Reply(
                        Intent.ASK,
                        "How many people play {game} with us on {day}?",
                        "Five with you, so it works out.",
                    ),
                    Reply(Intent.ADVISE, "Invite my {kin} as well, {game} is more fun with six."),
                    Reply(Intent.TELL, "{game} takes about two hours, so we should start at {time}."),
                    Reply(Intent.JOKE, "I play {game} only for {snack} and glory."),
                ),
            ),
            Opener(
                says=("Can you explain the rules of {game}?", "I don't understand the rules of {game}."),
                replies=(
                    Reply(Intent.TELL, "In {game} you collect points, and whoever has the most in the end wins."),
                    Reply(Intent.ADVISE, "Watch one round of {game} first, the rules explain themselves."),
                    Reply(
                        Intent.ASK,
                        "Which part of the rules is unclear, the start or the counting?",
                        "The counting, my score is always wrong.",
                    ),
                    Reply(Intent.DECLINE, "The rules of {game} change with every person who explains them."),
                    Reply(Intent.AGREE, "I don't know the rules either, let's read the leaflet of {game}."),
                    Reply(Intent.JOKE, "The first rule of {game} is that I win."),
                ),
            ),
            Opener(
                says=("You cheated at {game}!", "I think somebody cheated at {game}."),
                replies=(
                    Reply(Intent.DECLINE, "I did not cheat, the dice just love me."),
                    Reply(Intent.AGREE, "Fine, I admit it, I moved twice at {game}."),
                    Reply(Intent.ASK, "When exactly am I supposed to have cheated?", "When I went to fetch {snack}."),
                    Reply(Intent.TELL, "In {game} it is allowed to look at the last card, it says so in the rules."),
                    Reply(Intent.ADVISE, "Play the round of {game} again with everyone's hands on the table."),
                    Reply(Intent.JOKE, "Cheating is such an ugly word, I call it creative {game}."),
                ),
            ),
            Opener(
                says=("I always lose at {game}.", "I lost at {game} seven times in a row."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Seven defeats hurt, but at {game} much is luck."),
                    Reply(Intent.ADVISE, "Think two moves ahead at {game} and stop eating {snack} meanwhile."),
                    Reply(Intent.AGREE, "So do I, next time we lose as a team."),
                    Reply(
                        Intent.ASK,
                        "Do you play {game} against your {kin} or against a computer?",
                        "Against my {kin}, who is eight.",
                    ),
                    Reply(Intent.TELL, "Losing at {game} trains the brain more than winning."),
                    Reply(Intent.JOKE, "In reverse {game} you would be a champion."),
                ),
            ),
            Opener(
                says=("I bring the game, who brings {snack}?", "What shall I bring to the game night on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "I bring {snack}, and juice for those who drive."),
                    Reply(Intent.ADVISE, "Bring a second lamp to the game night, we could hardly read the cards."),
                    Reply(Intent.TELL, "There is enough {snack} here, only chairs are missing."),
                    Reply(Intent.DECLINE, "Please no {snack}, the cards of {game} still stick from last time."),
                    Reply(
                        Intent.ASK,
                        "Is the game night at your flat or at your {kin}'s?",
                        "At my flat, third floor, on the left.",
                    ),
                    Reply(Intent.JOKE, "Bring your wallet, we play {game} for coins."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Great, then the table is full for {game}."),
            FollowUp(Intent.ASK, "I look that up in the rules of {game}."),
            FollowUp(Intent.ADVISE, "I'll try that in the next round."),
            FollowUp(Intent.DECLINE, "Alright, then we play something without dice."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I claim my revenge at {game} on {day}."),
            FollowUp(Intent.JOKE, "Ha, the loser washes the dishes."),
            FollowUp(Intent.TELL, "I see, that changes my whole plan for {game}."),
        ),
        later=(
            "A piece of {game} has been missing since {month}.",
            "My grandfather taught me {game} in the garden.",
            "Nobody is allowed to look at the phone during {game}.",
            "The last round of {game} always takes the longest.",
            "The winner may choose the next game.",
        ),
        closings=("See you at the game night, bring {snack}!", "It's your move, I'm getting {snack}."),
    ),
)
