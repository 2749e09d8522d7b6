"""What people say about body and health: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

HEALTH = (
    Topic(
        name="dentist",
        subject="the dentist",
        has_desk=True,
        slots={
            "tooth": (
                "a back tooth",
                "the front tooth",
                "a wisdom tooth",
                "the lower left tooth",
                "an old filling",
                "the crown",
            ),
            "chew": ("chocolate", "ice cream", "nuts", "hot tea", "toffee", "hard bread"),
        },
        openers=(
            Opener(
                says=("I have had pain in {tooth} since {day}.", "{tooth} has been hurting since {day}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Poor you, pain in {tooth} keeps one awake at night."),
                    Reply(Intent.ADVISE, "Chew a clove on that side until the dentist can see {tooth}."),
                    Reply(
                        Intent.ASK,
                        "Does {tooth} hurt all the time or only with {chew}?",
                        "Only with {chew}, but then really badly.",
                    ),
                    Reply(Intent.TELL, "The dentist has an emergency hour each {day} for such a toothache."),
                    Reply(Intent.AGREE, "I know that pain, {tooth} needed a root treatment in my case."),
                    Reply(Intent.JOKE, "The tooth fairy would pay extra for {tooth}."),
                ),
            ),
            Opener(
                says=(
                    "Can I get an appointment with the dentist on {day}?",
                    "I'd like an appointment with the dentist, preferably on {day}.",
                ),
                replies=(
                    Reply(Intent.AGREE, "Yes, on {day} at {time} the dentist has a free appointment."),
                    Reply(Intent.DECLINE, "On {day} the dentist is away, the next appointment is in a week."),
                    Reply(
                        Intent.ASK,
                        "Is the appointment for a check or do you have a toothache?",
                        "Just the yearly check and a cleaning.",
                    ),
                    Reply(Intent.TELL, "New patients please come to their appointment ten minutes early for the form."),
                    Reply(
                        Intent.ADVISE,
                        "Come early on {day}, the dentist takes toothache patients without an appointment.",
                    ),
                    Reply(Intent.JOKE, "Nobody ever asked so happily for an appointment with the dentist."),
                ),
            ),
            Opener(
                says=("I am afraid of the dentist.", "I haven't dared to see a dentist for years."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Many people feel like that, even the sound of the drill frightens me."),
                    Reply(Intent.ADVISE, "Tell the dentist about your fear and agree on a hand sign for a break."),
                    Reply(Intent.TELL, "There are dentists who use laughing gas for frightened patients."),
                    Reply(
                        Intent.ASK,
                        "Was there a bad experience with a dentist when you were a child?",
                        "Yes, nobody believed me that it hurt.",
                    ),
                    Reply(Intent.AGREE, "I was afraid too, but the new dentist hums songs and drills gently."),
                    Reply(Intent.JOKE, "The dentist is more afraid of your teeth than you of the drill."),
                ),
            ),
            Opener(
                says=("The dentist says that {tooth} has to come out.", "{tooth} must be pulled on {day}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Oh dear, losing {tooth} sounds worse than it is, I promise."),
                    Reply(Intent.ADVISE, "Put ice on your cheek after {tooth} is out and eat soup for two days."),
                    Reply(
                        Intent.ASK,
                        "Will {tooth} be replaced by an implant or a bridge?",
                        "By a bridge, the implant is too expensive.",
                    ),
                    Reply(Intent.DECLINE, "Get a second opinion first, {tooth} can often be saved."),
                    Reply(Intent.TELL, "Mine was pulled within a minute, {tooth} didn't even bleed much."),
                    Reply(Intent.JOKE, "Keep {tooth} and hang it on a necklace."),
                ),
            ),
            Opener(
                says=("How often do you change your toothbrush?", "Is an electric toothbrush better for my teeth?"),
                replies=(
                    Reply(Intent.TELL, "The dentist told me to change the toothbrush every three months."),
                    Reply(Intent.AGREE, "Yes, my teeth are smoother with the electric toothbrush."),
                    Reply(Intent.DECLINE, "I don't think so, a simple toothbrush does it when you take your time."),
                    Reply(Intent.ADVISE, "Use floss as well, no toothbrush gets between the teeth."),
                    Reply(
                        Intent.ASK,
                        "Do your gums bleed when you brush your teeth?",
                        "A little, mostly in the evening.",
                    ),
                    Reply(Intent.JOKE, "I change my toothbrush when it looks like a hedgehog."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then I am not alone with {tooth} and the drill."),
            FollowUp(Intent.ASK, "I can tell you more when the dentist has looked at {tooth}."),
            FollowUp(Intent.ADVISE, "I will try the clove and keep my mouth warm."),
            FollowUp(Intent.DECLINE, "Then I live on painkillers until the dentist is back."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I can hardly speak with this swollen cheek."),
            FollowUp(Intent.JOKE, "Ha, please don't make me laugh with this tooth."),
            FollowUp(Intent.TELL, "That calms me, so the dentist is not a monster."),
        ),
        later=(
            "The waiting room of the dentist has magazines from ten years ago.",
            "After the injection I could not feel my lip for hours.",
            "No {chew} for me until {tooth} is repaired.",
            "The dentist praised my teeth, except for one.",
            "My {kin} gets a sticker from the dentist each time.",
        ),
        closings=("Get well soon, and keep away from {chew}!", "The dentist is calling me in, bye."),
    ),
    Topic(
        name="doctor",
        subject="the doctor",
        has_desk=True,
        slots={
            "ill": ("a bad cough", "a fever", "a sore throat", "a rash", "back pain", "a stomach ache", "dizziness"),
        },
        openers=(
            Opener(
                says=("I have had {ill} since {day}.", "Since {day} I've been in bed with {ill}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Get well soon, {ill} takes all the strength out of you."),
                    Reply(Intent.ADVISE, "Drink a lot of tea, stay in bed, and see the doctor if {ill} lasts."),
                    Reply(
                        Intent.ASK,
                        "Did you take your temperature, or is it only {ill}?",
                        "Thirty eight and a half this morning.",
                    ),
                    Reply(Intent.TELL, "Half of the town has {ill} at the moment, the doctor told me."),
                    Reply(Intent.AGREE, "My {kin} has {ill} as well, it must be going round."),
                    Reply(Intent.DECLINE, "Don't wait with {ill}, call the doctor this very day."),
                ),
            ),
            Opener(
                says=("I need an appointment because of {ill}.", "Could the doctor see me on {day} about {ill}?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, please come on {day} at {time} and bring your insurance card."),
                    Reply(Intent.DECLINE, "The doctor is fully booked on {day}, is the day after possible?"),
                    Reply(
                        Intent.ASK,
                        "How long have you had {ill}, and do you take any medicine?",
                        "About a week, and I only take cough drops.",
                    ),
                    Reply(Intent.ADVISE, "With {ill} please wear a mask in the waiting room of the doctor."),
                    Reply(Intent.TELL, "The open hour of the doctor for {ill} is daily from eight to nine."),
                    Reply(Intent.SYMPATHISE, "I am sorry that {ill} troubles you, the doctor will call you back."),
                ),
            ),
            Opener(
                says=(
                    "The tablets against {ill} don't help at all.",
                    "I take the tablets three times a day and still have {ill}.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Don't stop the tablets before you have talked to the doctor."),
                    Reply(Intent.TELL, "Such tablets need about three days before {ill} gets better."),
                    Reply(
                        Intent.ASK,
                        "Do you take the tablets before or after meals?",
                        "After meals, with a glass of milk.",
                    ),
                    Reply(Intent.DECLINE, "Milk is no good with tablets, it weakens them."),
                    Reply(Intent.SYMPATHISE, "Still {ill} after all those tablets, that is discouraging."),
                    Reply(Intent.AGREE, "They did not work for my {ill} either, I got stronger ones."),
                ),
            ),
            Opener(
                says=("Do I need a sick note for the first day?", "Can I get a sick note because of {ill}?"),
                replies=(
                    Reply(Intent.TELL, "You need a sick note from the third day, ask your firm to be sure."),
                    Reply(Intent.AGREE, "Yes, the doctor writes you a sick note until {day}."),
                    Reply(Intent.DECLINE, "Without an examination the doctor may not write a sick note."),
                    Reply(
                        Intent.ASK,
                        "From which day should the sick note start?",
                        "From yesterday, if that is possible.",
                    ),
                    Reply(Intent.ADVISE, "Call the practice, they send the sick note straight to your firm."),
                    Reply(Intent.JOKE, "My mother would write you a sick note with a stamp of jam."),
                ),
            ),
            Opener(
                says=(
                    "I sat in the doctor's waiting room for three hours.",
                    "I waited three hours at the doctor's in spite of my appointment.",
                ),
                replies=(
                    Reply(Intent.SYMPATHISE, "Three hours in the waiting room with {ill}, what an ordeal."),
                    Reply(Intent.ADVISE, "Take the first appointment in the morning, then the waiting room is empty."),
                    Reply(Intent.AGREE, "That is normal there, I read a whole novel in that waiting room."),
                    Reply(
                        Intent.ASK,
                        "Did they at least say why you had to wait so long?",
                        "An emergency came in, so I can't complain.",
                    ),
                    Reply(Intent.TELL, "The other doctor at the market square is faster."),
                    Reply(Intent.JOKE, "By then the patients have cured each other."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then we both drink tea and pity ourselves."),
            FollowUp(Intent.ASK, "I will measure it again and call the doctor tonight."),
            FollowUp(Intent.ADVISE, "I make tea at once and go back to bed."),
            FollowUp(Intent.DECLINE, "Then I call another doctor about {ill}."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I feel weak but it was worse on {day}."),
            FollowUp(Intent.JOKE, "Ha, laughing hurts with {ill}, please stop."),
            FollowUp(Intent.TELL, "Good to know, so {ill} should be over in a few days."),
        ),
        later=(
            "The chemist on the corner is open until late on {day}.",
            "I have slept fourteen hours and I am still tired.",
            "My {kin} brings me soup and fresh oranges.",
            "The doctor listened to my lungs and everything was clear.",
            "I missed half of the week at work because of {ill}.",
        ),
        closings=("Get well soon and take your medicine!", "I go back to bed now, thanks for asking."),
    ),
    Topic(
        name="sleep",
        subject="sleep",
        slots={
            "aid": ("hot milk", "a boring book", "whale song", "lavender oil", "an eye mask", "a weighted blanket"),
        },
        openers=(
            Opener(
                says=("I lie awake until three every night.", "I haven't slept properly since {day}."),
                replies=(
                    Reply(Intent.ADVISE, "Put the phone in another room and try {aid} before bed."),
                    Reply(
                        Intent.SYMPATHISE,
                        "That is exhausting, after a few nights without sleep the world turns grey.",
                    ),
                    Reply(
                        Intent.ASK,
                        "What goes through your head when you lie awake?",
                        "Lists, mainly lists of things to do.",
                    ),
                    Reply(Intent.TELL, "Lying awake is common at full moon, on {day} it should be better."),
                    Reply(Intent.AGREE, "I can't sleep either, at three I hear the first birds."),
                    Reply(Intent.JOKE, "Count the sheep backwards, they are tired as well."),
                ),
            ),
            Opener(
                says=("Does {aid} help you fall asleep?", "Have you ever tried {aid} for better sleep?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, with {aid} I fall asleep within ten minutes."),
                    Reply(Intent.DECLINE, "No, {aid} only made me wider awake."),
                    Reply(Intent.TELL, "My {kin} swears by {aid} and a cool bedroom."),
                    Reply(Intent.ADVISE, "Use {aid} at the same hour every night, sleep likes habits."),
                    Reply(
                        Intent.ASK,
                        "Is it falling asleep or waking up early that troubles you?",
                        "Falling asleep, later I sleep like a stone.",
                    ),
                    Reply(Intent.JOKE, "{aid} helps so well that I missed two alarms."),
                ),
            ),
            Opener(
                says=("My {kin} snores so loudly.", "I share a room with my {kin}, who snores all night."),
                replies=(
                    Reply(Intent.ADVISE, "Turn the snorer onto one side and use {aid} for yourself."),
                    Reply(Intent.SYMPATHISE, "Poor you, snoring through the wall is bad, in one room it is torture."),
                    Reply(
                        Intent.ASK,
                        "Is it worse when your {kin} has a cold?",
                        "Yes, then the pictures on the wall shake.",
                    ),
                    Reply(Intent.TELL, "Snoring can be a sign of poor breathing in sleep, a doctor should listen."),
                    Reply(Intent.AGREE, "Mine snores too, I moved to the sofa on {day}."),
                    Reply(Intent.JOKE, "Record the snoring and sell it as engine sounds."),
                ),
            ),
            Opener(
                says=("I keep sleeping through my alarm.", "I slept through three alarms this morning."),
                replies=(
                    Reply(Intent.ADVISE, "Put the alarm clock at the other end of the bedroom."),
                    Reply(
                        Intent.ASK,
                        "What time do you go to bed when you sleep through the alarm?",
                        "Long after midnight, I admit.",
                    ),
                    Reply(Intent.TELL, "There are alarm clocks on wheels which you have to chase."),
                    Reply(Intent.AGREE, "Me too, I dream that I switch the alarm off."),
                    Reply(Intent.DECLINE, "It is not the alarm, you simply need eight hours of sleep."),
                    Reply(Intent.JOKE, "Get a hungry cat, no alarm is louder."),
                ),
            ),
            Opener(
                says=("I need a nap every afternoon.", "After lunch I could sleep at my desk."),
                replies=(
                    Reply(Intent.AGREE, "A nap of twenty minutes is wonderful, I take one each day."),
                    Reply(Intent.DECLINE, "If you nap in the afternoon you won't sleep at night."),
                    Reply(Intent.ADVISE, "Walk around the block after lunch, then the nap can wait."),
                    Reply(
                        Intent.ASK,
                        "Do you eat a heavy lunch before you get so sleepy?",
                        "Noodles with cream, most of the time.",
                    ),
                    Reply(Intent.TELL, "In the south nobody is ashamed of a nap, shops close for it."),
                    Reply(Intent.JOKE, "I nap in meetings with my eyes open."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then I write to you at three when I lie awake."),
            FollowUp(Intent.ASK, "I will keep a sleep diary and find out."),
            FollowUp(Intent.ADVISE, "I try {aid} tonight."),
            FollowUp(Intent.DECLINE, "Hm, then I go to bed earlier for a week."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I yawn just from writing about sleep."),
            FollowUp(Intent.JOKE, "Ha, I nearly fell out of bed laughing."),
            FollowUp(Intent.TELL, "Interesting, I didn't know that about sleep."),
        ),
        later=(
            "A cool bedroom and thick socks work for me.",
            "The mattress is fifteen years old, maybe that is the reason.",
            "I dreamed of an exam in a swimming pool.",
            "On {day} I can finally sleep in.",
            "The curtains let too much light into the bedroom.",
        ),
        closings=("Good night, sleep well!", "I switch the light off now, sweet dreams."),
    ),
    Topic(
        name="glasses",
        subject="the glasses",
        has_desk=True,
        slots={
            "frame": (
                "round frames",
                "thin metal frames",
                "thick black frames",
                "green frames",
                "frames without a rim",
                "light plastic frames",
            ),
        },
        openers=(
            Opener(
                says=("I have broken my glasses.", "My glasses broke on {day} when I sat on them."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Oh no, without glasses the whole day is a blur."),
                    Reply(Intent.ADVISE, "Bring the broken glasses to us, a bent arm is repaired in minutes."),
                    Reply(
                        Intent.ASK,
                        "Is only the frame of the glasses broken, or a lens too?",
                        "The frame, both lenses are fine.",
                    ),
                    Reply(Intent.TELL, "For a repair of the glasses the optician needs two days."),
                    Reply(Intent.JOKE, "Tape in the middle gives glasses a scientific look."),
                    Reply(Intent.AGREE, "Mine broke the same way, the sofa is a trap for glasses."),
                ),
            ),
            Opener(
                says=("Which frames would suit my face?", "I can't decide between {frame} and something else."),
                replies=(
                    Reply(Intent.AGREE, "Take {frame}, they make your face look friendly."),
                    Reply(Intent.DECLINE, "Not {frame}, they hide your eyebrows and slip off your nose."),
                    Reply(Intent.ADVISE, "Take photos of yourself with {frame} and look at them the next day."),
                    Reply(
                        Intent.ASK,
                        "Will you wear the new frames all day or only for reading?",
                        "All day, also for sports.",
                    ),
                    Reply(Intent.TELL, "{frame} are light and nearly unbreakable, says the optician."),
                    Reply(Intent.JOKE, "With {frame} you look like a detective on holiday."),
                ),
            ),
            Opener(
                says=("I can't read the signs any more.", "Small print has become blurred for me."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Have your eyes tested, the optician does it without an appointment on {day}.",
                    ),
                    Reply(Intent.SYMPATHISE, "That happens to all of us, the arms just get too short for reading."),
                    Reply(
                        Intent.ASK,
                        "Do you see badly in the distance or close to the eyes?",
                        "In the distance, mostly when I drive at night.",
                    ),
                    Reply(Intent.TELL, "An eye test takes a quarter of an hour and costs nothing here."),
                    Reply(Intent.AGREE, "I can't read small print either, I use the torch of my phone."),
                    Reply(Intent.JOKE, "The signs are printed smaller each year to sell glasses."),
                ),
            ),
            Opener(
                says=("Are contact lenses better than glasses?", "I'm thinking about contact lenses."),
                replies=(
                    Reply(Intent.AGREE, "For sport contact lenses are much better than glasses."),
                    Reply(Intent.DECLINE, "I went back to glasses, contact lenses made my eyes dry."),
                    Reply(Intent.TELL, "Contact lenses have to be cleaned each night and never with tap water."),
                    Reply(
                        Intent.ASK,
                        "Could you touch your own eye to put contact lenses in?",
                        "That is exactly what frightens me.",
                    ),
                    Reply(Intent.ADVISE, "Try contact lenses for a day, the optician lends you a pair."),
                    Reply(Intent.JOKE, "With glasses you only search in one place, on your nose."),
                ),
            ),
            Opener(
                says=("When will my new glasses be ready?", "Are my new glasses with {frame} ready yet?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, your glasses are ready, you can collect them until {time}."),
                    Reply(Intent.DECLINE, "Not yet, one lens of your glasses was scratched and is made again."),
                    Reply(Intent.TELL, "New glasses with {frame} take about a week, we send you a message."),
                    Reply(
                        Intent.ASK,
                        "Under which name did you order the glasses?",
                        "Under my own, on {day} in the afternoon.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Please come in person for the new glasses, we adjust {frame} behind your ears.",
                    ),
                    Reply(
                        Intent.SYMPATHISE,
                        "I understand that you are waiting, we ask the lens maker about your glasses.",
                    ),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Good, then I take {frame} and stop thinking."),
            FollowUp(Intent.ASK, "I will ask the optician that on {day}."),
            FollowUp(Intent.ADVISE, "I try it before the next drive at night."),
            FollowUp(Intent.DECLINE, "Too bad, I liked {frame} so much."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I wear my old glasses with a scratch for now."),
            FollowUp(Intent.JOKE, "Ha, I found the glasses on my head just now."),
            FollowUp(Intent.TELL, "Then I come by and have my eyes tested."),
        ),
        later=(
            "My {kin} has worn glasses since the first year of school.",
            "Rain on the glasses is worse than fog.",
            "A soft cloth lies in every pocket of my coats.",
            "With the new lenses I see each leaf on the trees.",
            "Sunglasses with my strength would be lovely for the holidays.",
        ),
        closings=("Thank you, I'll come to the shop for the glasses.", "See you, this time clearly!"),
    ),
)
