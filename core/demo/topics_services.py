"""What people say about counters and service desks: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

SERVICES = (
    Topic(
        name="restaurant",
        subject="the restaurant",
        has_desk=True,
        slots={
            "food": (
                "the grilled fish",
                "the mushroom pasta",
                "the lamb stew",
                "the house salad",
                "the noodle soup",
                "the cheese plate",
            ),
            "place": ("the Blue Lantern", "the Old Mill", "the Garden Room", "the Corner Table", "the Harbour Kitchen"),
            "allergen": ("nuts", "milk", "eggs", "wheat", "celery", "shellfish"),
        },
        openers=(
            Opener(
                says=("I'd like to book a table at {place} for {day}.", "Is there a free table at {place} on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "Certainly, we have a table at {place} for you on {day} at {time}."),
                    Reply(
                        Intent.ASK,
                        "For how many people shall I book the table on {day}?",
                        "For four people, and one of them needs a high chair.",
                    ),
                    Reply(Intent.DECLINE, "I'm sorry, {place} is fully booked on {day}."),
                    Reply(Intent.TELL, "On {day} the kitchen of {place} closes early, the last order is at {time}."),
                    Reply(Intent.ADVISE, "Better book the terrace, the tables inside {place} get loud on {day}."),
                    Reply(Intent.JOKE, "For {day} there is only the small table beside the singing cook."),
                ),
            ),
            Opener(
                says=("What can you recommend at {place}?", "I'm at {place} for the first time, what should I eat?"),
                replies=(
                    Reply(Intent.AGREE, "Take {food}, it is the reason why people come to {place}."),
                    Reply(Intent.DECLINE, "Not {food}, last time it was cold, but the desserts are excellent."),
                    Reply(Intent.TELL, "The menu of {place} changes each week, today they have {food}."),
                    Reply(
                        Intent.ASK,
                        "Do you eat meat, or should the dish be vegetarian?",
                        "No meat, but fish is fine with me.",
                    ),
                    Reply(Intent.ADVISE, "Ask for the lunch menu, {food} costs half the price at noon."),
                    Reply(Intent.JOKE, "The bill is the only thing at {place} I cannot recommend."),
                ),
            ),
            Opener(
                says=("I waited an hour for {food}.", "An hour has passed and {food} is still not on our table."),
                replies=(
                    Reply(Intent.SYMPATHISE, "I am sorry about the waiting, an hour for {food} is far too long."),
                    Reply(Intent.TELL, "Two cooks are ill, so {food} takes longer than usual today."),
                    Reply(Intent.ADVISE, "Complain to the waiter, they often give a free dessert for such a delay."),
                    Reply(
                        Intent.ASK,
                        "Did the others at your table get their food?",
                        "They have finished already and I am starving.",
                    ),
                    Reply(Intent.AGREE, "We waited just as long for {food}, the kitchen is overwhelmed."),
                    Reply(Intent.JOKE, "They are still out fishing for your dinner, I suppose."),
                ),
            ),
            Opener(
                says=(
                    "Is there anything on the menu without {allergen}?",
                    "I'm allergic to {allergen}, what can I order?",
                ),
                replies=(
                    Reply(Intent.AGREE, "Yes, {food} is prepared without {allergen}, I checked with the kitchen."),
                    Reply(
                        Intent.DECLINE,
                        "Unfortunately nearly all our dishes contain {allergen}, except for the green salad.",
                    ),
                    Reply(Intent.TELL, "The waiter has a list of all dishes with {allergen} in them."),
                    Reply(
                        Intent.ASK,
                        "Is a trace of {allergen} dangerous for you, or only larger amounts?",
                        "Even a trace of it makes me ill.",
                    ),
                    Reply(Intent.ADVISE, "Tell the cook about the {allergen} yourself, a note gets lost too easily."),
                    Reply(Intent.SYMPATHISE, "That must be hard, {allergen} hides in so many sauces."),
                ),
            ),
            Opener(
                says=(
                    "The bill at {place} was higher than we expected.",
                    "They put a wrong amount on our bill at {place}.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Go through the bill line by line, maybe {food} was charged twice."),
                    Reply(Intent.SYMPATHISE, "Ouch, a surprise on the bill spoils the whole evening."),
                    Reply(Intent.TELL, "At {place} bread and water are charged extra, it says so on the menu."),
                    Reply(Intent.ASK, "Did the bill include the tip already?", "No, the tip would have come on top."),
                    Reply(Intent.AGREE, "Ours was wrong too, they charged {food} that we never ate."),
                    Reply(Intent.JOKE, "Next time we wash the dishes in place of paying the bill."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Wonderful, I look forward to {food}."),
            FollowUp(Intent.ASK, "I will ask the others at the table and let you know."),
            FollowUp(Intent.ADVISE, "Good idea, I talk to the waiter about {food}."),
            FollowUp(Intent.DECLINE, "What a pity, then we try {place} another time."),
            FollowUp(Intent.SYMPATHISE, "Thanks, the dessert made up for it in the end."),
            FollowUp(Intent.JOKE, "Ha, for that show I would even pay the bill."),
            FollowUp(Intent.TELL, "Then we come to {place} a bit earlier."),
            FollowUp(Intent.TELL, "I see, so {food} is the thing to order."),
        ),
        later=(
            "The candles at {place} make even the water taste better.",
            "I always look at the desserts before I order anything.",
            "The waiter at {place} remembers every guest by the dish.",
            "We could share {food} and two starters.",
        ),
        closings=(
            "See you at {place}, the first one takes the table by the window.",
            "Thank you, and compliments to the kitchen!",
        ),
    ),
    Topic(
        name="parcel",
        subject="the parcel",
        has_desk=True,
        slots={
            "goods": ("shoes", "a lamp", "two books", "a coat", "a coffee maker", "a toy train", "a mirror"),
            "drop": ("the corner shop", "the post office", "the kiosk", "the garage", "the parcel locker"),
        },
        openers=(
            Opener(
                says=(
                    "My parcel with {goods} has not arrived.",
                    "Where is my parcel with {goods}? It was due on {day}.",
                ),
                replies=(
                    Reply(
                        Intent.ASK,
                        "May I have the number of the parcel with {goods}?",
                        "It starts with seven and is on the mail I sent you.",
                    ),
                    Reply(Intent.TELL, "Your parcel with {goods} is in the van and comes on {day}."),
                    Reply(Intent.SYMPATHISE, "I'm sorry that your parcel with {goods} is late."),
                    Reply(Intent.ADVISE, "Look at {drop}, the courier often leaves parcels there."),
                    Reply(Intent.AGREE, "My parcel has been missing since {day} too, the depot is overloaded."),
                    Reply(Intent.JOKE, "Your parcel is on a world tour with {goods}."),
                ),
            ),
            Opener(
                says=("The parcel with {goods} came damaged.", "I opened the parcel and {goods} arrived broken."),
                replies=(
                    Reply(Intent.SYMPATHISE, "That should not happen, I apologise for the damaged parcel."),
                    Reply(Intent.ADVISE, "Take photos of the parcel and {goods} and send them to us."),
                    Reply(Intent.TELL, "For a damaged parcel we send {goods} again free of charge."),
                    Reply(
                        Intent.ASK,
                        "Was the box of the parcel already dented when it came?",
                        "Dented and taped over in two places.",
                    ),
                    Reply(Intent.DECLINE, "The sender is responsible for the damage, not the parcel service."),
                    Reply(Intent.AGREE, "My last parcel came broken as well, they throw them over the fence."),
                ),
            ),
            Opener(
                says=(
                    "Could the courier leave the parcel at {drop}?",
                    "I'm not at home on {day}, please leave the parcel at {drop}.",
                ),
                replies=(
                    Reply(Intent.AGREE, "Yes, we note that the parcel goes to {drop} on {day}."),
                    Reply(Intent.DECLINE, "Parcels with a signature can't be left at {drop}."),
                    Reply(Intent.TELL, "From {drop} you can collect the parcel for seven days."),
                    Reply(Intent.ASK, "Does {drop} know about the parcel?", "Yes, I asked this morning."),
                    Reply(Intent.ADVISE, "Write a note for the courier and stick it on the door."),
                    Reply(Intent.JOKE, "The dog at {drop} has to sign for the parcel."),
                ),
            ),
            Opener(
                says=("I want to send {goods} back.", "How do I return {goods} by parcel?"),
                replies=(
                    Reply(Intent.TELL, "Stick the return label on the parcel and take it to {drop}."),
                    Reply(Intent.ADVISE, "Keep the receipt of the return parcel until you have the money."),
                    Reply(
                        Intent.ASK,
                        "Why do you return {goods}, is anything wrong?",
                        "The size is wrong, otherwise it's fine.",
                    ),
                    Reply(Intent.DECLINE, "After thirty days {goods} can't be returned any more."),
                    Reply(Intent.AGREE, "I have a return parcel too, shall I take yours along to {drop}?"),
                    Reply(Intent.JOKE, "Send {goods} to me, I always wanted them."),
                ),
            ),
            Opener(
                says=("Did you take in a parcel for me?", "The card says that my parcel is with you."),
                replies=(
                    Reply(Intent.AGREE, "Yes, a big parcel for you stands in my hall."),
                    Reply(Intent.DECLINE, "No, there is no parcel here, ask at {drop}."),
                    Reply(
                        Intent.ASK,
                        "Is it the heavy parcel or the flat one?",
                        "The heavy one, it should be {goods}.",
                    ),
                    Reply(Intent.TELL, "The courier rang at {time} and gave me the parcel for you."),
                    Reply(Intent.ADVISE, "Come before {time} to collect the parcel, then I leave."),
                    Reply(Intent.JOKE, "I took in your parcel, and I like {goods} a lot."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Perfect, then I look out for the parcel."),
            FollowUp(Intent.ASK, "I find the number of the parcel and send it."),
            FollowUp(Intent.ADVISE, "I do that with the parcel today."),
            FollowUp(Intent.DECLINE, "Then I have to complain to the sender about {goods}."),
            FollowUp(Intent.SYMPATHISE, "Thank you, I only want to have {goods} in the end."),
            FollowUp(Intent.JOKE, "Ha, at least the parcel sees the world."),
            FollowUp(Intent.TELL, "I see, then the parcel is nearly here."),
        ),
        later=(
            "The courier rings so briefly that I never reach the door.",
            "The parcel with {goods} is a present, so it is urgent.",
            "The box was five times as big as {goods}.",
            "I keep the paper of each parcel for moving house.",
            "On {day} somebody is at home all day.",
        ),
        closings=("Thank you, the parcel has come!", "I wait for the courier then, bye."),
    ),
    Topic(
        name="bank",
        subject="the bank card",
        has_desk=True,
        slots={
            "trouble": (
                "was swallowed by the machine",
                "does not work abroad",
                "is lost",
                "has expired",
                "was refused in the shop",
            ),
        },
        openers=(
            Opener(
                says=("My bank card {trouble}.", "Since {day} my bank card {trouble}."),
                replies=(
                    Reply(Intent.ADVISE, "Have the bank card blocked at once, the number is on your account papers."),
                    Reply(
                        Intent.ASK,
                        "Where did you use the bank card for the last time?",
                        "At the petrol station on {day}.",
                    ),
                    Reply(Intent.TELL, "A new bank card comes by post within five days."),
                    Reply(Intent.SYMPATHISE, "How unpleasant, without a bank card one feels quite helpless."),
                    Reply(Intent.AGREE, "My bank card made the same trouble in {month}, the chip was dirty."),
                    Reply(Intent.JOKE, "Perhaps the bank card is on holiday from you."),
                ),
            ),
            Opener(
                says=(
                    "I don't know this payment on my account.",
                    "There is a strange payment on my bank account from {day}.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Tell the bank to return the payment, you have eight weeks for it."),
                    Reply(
                        Intent.ASK,
                        "What is the name of the receiver of the payment?",
                        "Only letters and a number, nothing I know.",
                    ),
                    Reply(Intent.TELL, "Sometimes shops use another name for payments on the account."),
                    Reply(Intent.SYMPATHISE, "A strange payment is a fright, let's look at your account together."),
                    Reply(Intent.DECLINE, "The payment was made with your own code, so we can't cancel it."),
                    Reply(Intent.AGREE, "I had such a payment too, it was a forgotten subscription."),
                ),
            ),
            Opener(
                says=("I'd like to open an account for my {kin}.", "What do I need to open a bank account?"),
                replies=(
                    Reply(Intent.TELL, "To open an account the bank needs a passport and your address."),
                    Reply(Intent.AGREE, "Gladly, an appointment for the new account is free on {day}."),
                    Reply(
                        Intent.ASK,
                        "Will the account be for a student or for somebody with a salary?",
                        "For a student, with a small job.",
                    ),
                    Reply(Intent.ADVISE, "Choose the account without a fee, it has all you need."),
                    Reply(Intent.DECLINE, "Without a fixed address the bank can't open an account."),
                    Reply(Intent.JOKE, "First the account, then the money, that's the hard part."),
                ),
            ),
            Opener(
                says=(
                    "The cash machine gave me too little money.",
                    "The cash machine counted wrong and I'm missing a note.",
                ),
                replies=(
                    Reply(Intent.TELL, "The bank counts the cash machine each evening and finds such errors."),
                    Reply(Intent.ADVISE, "Write down the time and the number of the cash machine."),
                    Reply(
                        Intent.ASK,
                        "How much did you want from the cash machine and what came out?",
                        "A hundred, and only eighty came out.",
                    ),
                    Reply(Intent.SYMPATHISE, "I understand that you are angry, we check the cash machine."),
                    Reply(Intent.DECLINE, "A cash machine never counts wrong, maybe two notes stuck together."),
                    Reply(Intent.JOKE, "The cash machine takes a tip now."),
                ),
            ),
            Opener(
                says=(
                    "How do I save money every month?",
                    "I can't put any money aside, it is gone by the end of {month}.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Let the bank move a fixed sum to a savings account on payday."),
                    Reply(Intent.TELL, "I write down all that I spend, since then I save money every month."),
                    Reply(Intent.AGREE, "I can't save either, the money flies away."),
                    Reply(
                        Intent.ASK,
                        "Have you looked at which payments leave your account each month?",
                        "Rent, phone, and far too many pizzas.",
                    ),
                    Reply(Intent.DECLINE, "Saving is hard with those prices, don't blame yourself."),
                    Reply(Intent.JOKE, "I save money by leaving my bank card at home and my hunger too."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Good, I will come to the bank on {day}."),
            FollowUp(Intent.ASK, "I look at the papers of my account and call you."),
            FollowUp(Intent.ADVISE, "I do that at once, before more money is gone."),
            FollowUp(Intent.DECLINE, "Then I have to talk to the manager of the bank."),
            FollowUp(Intent.SYMPATHISE, "Thank you, I was really worried about my account."),
            FollowUp(Intent.JOKE, "Ha, my account laughs less than I do."),
            FollowUp(Intent.TELL, "Thank you, then I wait for the letter from the bank."),
        ),
        later=(
            "The queue at the bank counter goes out to the street.",
            "I have had my account there since I was ten.",
            "The code came in a separate letter.",
            "My {kin} keeps money in a teapot.",
            "The coin jar holds more money than my account.",
        ),
        closings=("Thank you for the help with my bank card.", "I go to the counter now, bye."),
    ),
    Topic(
        name="haircut",
        subject="the haircut",
        has_desk=True,
        slots={
            "style": ("a short bob", "a fringe", "only the tips", "a new colour", "long layers", "very short sides"),
        },
        openers=(
            Opener(
                says=("I'd like an appointment for {style} on {day}.", "Can I come in on {day} for {style}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, on {day} at {time} there is time for {style}."),
                    Reply(Intent.DECLINE, "On {day} the hairdresser is full, how about the day after?"),
                    Reply(
                        Intent.ASK,
                        "Is your hair long at the moment, for {style} we need to know?",
                        "Down to the shoulders, and rather thick.",
                    ),
                    Reply(Intent.TELL, "For {style} please plan an hour at the hairdresser."),
                    Reply(Intent.ADVISE, "Come with washed hair, then {style} is cheaper."),
                    Reply(Intent.JOKE, "For {style} bring courage and a photo."),
                ),
            ),
            Opener(
                says=("The hairdresser cut off far too much.", "I asked for {style}, and now my hair is gone."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Oh no, I understand your tears, but hair grows back."),
                    Reply(Intent.ADVISE, "Go back and let another hairdresser correct {style}."),
                    Reply(Intent.ASK, "How much did the hairdresser cut off?", "A hand's width at least."),
                    Reply(Intent.TELL, "Hair grows a centimetre a month, until {month} it will be fine."),
                    Reply(Intent.AGREE, "The same hairdresser made me a hedgehog in {month}."),
                    Reply(Intent.JOKE, "Hats are coming back into fashion."),
                ),
            ),
            Opener(
                says=("Would {style} suit me?", "I'm thinking about {style}, what do you say?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, {style} would look great with your round face."),
                    Reply(Intent.DECLINE, "Keep your hair as it is, {style} is too strict for you."),
                    Reply(Intent.ADVISE, "Put a photo of yourself into such a program and try {style}."),
                    Reply(Intent.ASK, "Would you have time to style {style} each morning?", "Five minutes, not more."),
                    Reply(Intent.TELL, "My {kin} has {style} and washes it only twice a week."),
                    Reply(Intent.JOKE, "{style} would suit you, me and the neighbour's poodle."),
                ),
            ),
            Opener(
                says=("How often should I have my hair cut?", "Is it enough to cut my hair twice a year?"),
                replies=(
                    Reply(Intent.TELL, "With {style} the hair needs a cut every six weeks."),
                    Reply(Intent.DECLINE, "Twice a year is not enough, the ends of the hair split."),
                    Reply(Intent.AGREE, "I cut my hair twice a year as well, it saves money."),
                    Reply(Intent.ASK, "Do you wear your hair open or tied up?", "Tied up, because of my work."),
                    Reply(Intent.ADVISE, "Have your hair cut when the moon is rising, my {kin} says."),
                    Reply(Intent.JOKE, "I go when I bump into lamp posts because of my fringe."),
                ),
            ),
            Opener(
                says=("I found my first grey hair.", "My hair is turning grey since {month}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "The first grey hair is a small shock, I remember mine."),
                    Reply(Intent.ADVISE, "Leave the grey hair, it looks silver in the light."),
                    Reply(
                        Intent.ASK,
                        "Do you want to dye the grey hair or wear it with pride?",
                        "I don't know, I pulled it out.",
                    ),
                    Reply(Intent.AGREE, "I'm grey as well, the hairdresser calls it salt and pepper."),
                    Reply(Intent.TELL, "A plant colour covers grey hair for about six weeks."),
                    Reply(Intent.JOKE, "Grey hair is only the light coming out."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Lovely, then I will do it on {day}."),
            FollowUp(Intent.ASK, "I look into the mirror and think about it."),
            FollowUp(Intent.ADVISE, "I ask the hairdresser about that."),
            FollowUp(Intent.DECLINE, "Then my hair stays as it is for now."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I wear a scarf until it has grown."),
            FollowUp(Intent.JOKE, "Ha, I show that to my hairdresser."),
            FollowUp(Intent.TELL, "Good to know, then I book {style}."),
        ),
        later=(
            "The hairdresser knows all the stories of our street.",
            "The head massage is the best part at the hairdresser.",
            "I fell asleep under the dryer.",
            "With {style} I need half of the shampoo.",
            "My {kin} cuts hair in the kitchen.",
        ),
        closings=("See you at the hairdresser on {day}.", "Thank you, my new hair feels great!"),
    ),
    Topic(
        name="lost-property",
        subject="the lost property office",
        has_desk=True,
        slots={
            "lost": (
                "an umbrella",
                "a left glove",
                "a grey rucksack",
                "a key ring",
                "a blue scarf",
                "a straw hat",
                "a violin case",
            ),
            "where": ("the tram", "the theatre", "the waiting room", "the market hall", "the taxi", "the library"),
        },
        openers=(
            Opener(
                says=("I lost {lost} in {where} on {day}.", "On {day} I left {lost} in {where}."),
                replies=(
                    Reply(
                        Intent.ASK,
                        "What does it look like, {lost}, and was there a name on it?",
                        "There is a small tag with my number.",
                    ),
                    Reply(Intent.AGREE, "We do have something like {lost}, it was found in {where}."),
                    Reply(Intent.DECLINE, "I'm sorry, nobody has handed in {lost} yet."),
                    Reply(Intent.TELL, "Lost things from {where} arrive in our office after three days."),
                    Reply(Intent.ADVISE, "Fill in the form for {lost} and draw a little picture of it."),
                    Reply(Intent.SYMPATHISE, "What a pity, I hope an honest person found {lost}."),
                ),
            ),
            Opener(
                says=("I found {lost} in {where}.", "Somebody left {lost} in {where}, where do I take it?"),
                replies=(
                    Reply(Intent.AGREE, "Thank you for being honest, we look for the owner of {lost}."),
                    Reply(Intent.TELL, "Please bring {lost} to the lost property office before {time}."),
                    Reply(Intent.ASK, "Was anything inside or next to {lost}?", "A ticket from {day}, nothing else."),
                    Reply(Intent.ADVISE, "Leave {lost} with the staff of {where}, people ask there first."),
                    Reply(Intent.DECLINE, "We only take things worth more than ten, please put up a notice."),
                    Reply(Intent.JOKE, "Did you try it on before you brought it?"),
                ),
            ),
            Opener(
                says=("Until when do you keep lost things?", "How long is {lost} kept in the lost property office?"),
                replies=(
                    Reply(Intent.TELL, "We keep lost things for six months, then they are sold."),
                    Reply(Intent.AGREE, "Half a year, so {lost} should still be on our shelf."),
                    Reply(Intent.DECLINE, "Food and wet clothes are not kept even for a day."),
                    Reply(Intent.ASK, "When was it that you lost {lost}?", "In {month}, if I remember well."),
                    Reply(Intent.ADVISE, "Come to the sale on {day}, then you can buy it back."),
                    Reply(Intent.JOKE, "As long as my boss keeps his hundred umbrellas."),
                ),
            ),
            Opener(
                says=("Do I have to pay when I collect {lost}?", "What does it cost to get {lost} back?"),
                replies=(
                    Reply(Intent.TELL, "The fee for collecting {lost} is five, children pay nothing."),
                    Reply(Intent.AGREE, "Yes, a small fee, and the finder gets a reward."),
                    Reply(Intent.DECLINE, "It costs nothing if you come within a week to collect {lost}."),
                    Reply(
                        Intent.ASK,
                        "Do you have anything that proves {lost} is yours?",
                        "A photo where I have it with me.",
                    ),
                    Reply(Intent.ADVISE, "Bring a passport when you come to collect {lost}."),
                    Reply(Intent.JOKE, "You pay with a song, the violin cases are waiting."),
                ),
            ),
            Opener(
                says=("I lose something every week.", "I'm always losing things, today {lost}."),
                replies=(
                    Reply(Intent.ADVISE, "Sew a label with your number into everything, even into {lost}."),
                    Reply(Intent.AGREE, "So do I, the lost property office knows my voice."),
                    Reply(Intent.SYMPATHISE, "Searching all the time is tiring, I feel with you."),
                    Reply(
                        Intent.ASK,
                        "Do you lose things when you are in a hurry?",
                        "Mainly when I change from the tram to the bus.",
                    ),
                    Reply(Intent.TELL, "There are small bells that ring when you whistle for {lost}."),
                    Reply(Intent.JOKE, "You don't lose things, you spread them."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Wonderful, I come for {lost} at once."),
            FollowUp(Intent.ASK, "I have to think back to {day} in {where}."),
            FollowUp(Intent.ADVISE, "I do that when I pass {where}."),
            FollowUp(Intent.DECLINE, "Then I buy new ones, what a pity about {lost}."),
            FollowUp(Intent.SYMPATHISE, "Thank you, {lost} was a present from my {kin}."),
            FollowUp(Intent.JOKE, "Ha, I'm glad that someone can laugh about {lost}."),
            FollowUp(Intent.TELL, "Thank you, I ask again on {day}."),
        ),
        later=(
            "There are more than fifty umbrellas on that shelf.",
            "Somebody lost a set of teeth in {where}.",
            "I went back to {where} twice and looked under each seat.",
            "An honest finder restores my belief in people.",
            "Last year {lost} came back to me by post.",
        ),
        closings=("Thank you, I have {lost} back!", "I keep looking in {where}, bye."),
    ),
)
