"""What people say about work and learning: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

WORK = (
    Topic(
        name="interview",
        subject="the job interview",
        slots={
            "job": (
                "the nursery school",
                "the architect's office",
                "the bakery",
                "the software firm",
                "the museum",
                "the grand hotel",
                "the city library",
            ),
        },
        openers=(
            Opener(
                says=("I have a job interview at {job} on {day}.", "On {day} I'm invited to an interview at {job}."),
                replies=(
                    Reply(Intent.AGREE, "That is great news, {job} will be lucky to get you."),
                    Reply(
                        Intent.ASK,
                        "What position is the interview at {job} for?",
                        "For the front office, half of the week.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Read everything about {job} the evening before the interview and prepare two questions.",
                    ),
                    Reply(Intent.SYMPATHISE, "No wonder you are nervous, an interview at {job} is a big step."),
                    Reply(Intent.JOKE, "Wear matching socks, my interview failed because of mine."),
                    Reply(Intent.TELL, "Interviews at {job} last about an hour, my {kin} had one there."),
                ),
            ),
            Opener(
                says=("What should I wear to the interview at {job}?", "I don't know what to wear at my interview."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Choose something plain and ironed for the interview, and shoes you can walk in.",
                    ),
                    Reply(Intent.DECLINE, "Not a suit, at {job} everyone wears jeans and a pullover."),
                    Reply(Intent.TELL, "A dark jacket is never wrong for an interview at {job}."),
                    Reply(
                        Intent.ASK,
                        "Have you seen pictures of the people who work at {job}?",
                        "Yes, they all wear shirts without a tie.",
                    ),
                    Reply(Intent.AGREE, "I ask myself the same before every interview."),
                    Reply(Intent.JOKE, "A superhero cape shows that you want the job."),
                ),
            ),
            Opener(
                says=(
                    "They asked about my weaknesses in the interview.",
                    "What do you say when an interview comes to weaknesses?",
                ),
                replies=(
                    Reply(Intent.TELL, "I said in my interview that I take on too much and am learning to say no."),
                    Reply(Intent.ADVISE, "Name a real weakness and tell them what you do about it."),
                    Reply(Intent.SYMPATHISE, "That question in an interview always makes me sweat, too."),
                    Reply(
                        Intent.ASK,
                        "What did you answer when they asked for your weaknesses?",
                        "That I am impatient with slow computers.",
                    ),
                    Reply(Intent.DECLINE, "Never say that perfection is your weakness, every interview hears that."),
                    Reply(Intent.JOKE, "My weakness is answering interview questions."),
                ),
            ),
            Opener(
                says=(
                    "I still have no answer after the interview at {job}.",
                    "{job} has not called me back since the interview.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Write a short friendly mail to {job} and ask how far they are."),
                    Reply(Intent.SYMPATHISE, "Waiting after an interview is the worst part."),
                    Reply(
                        Intent.ASK,
                        "When did {job} want to decide about the position?",
                        "By the end of last week, they said.",
                    ),
                    Reply(Intent.TELL, "At {job} it took five weeks from my interview to the letter."),
                    Reply(Intent.DECLINE, "No answer is no bad sign, {job} is closed in {month}."),
                    Reply(Intent.AGREE, "I wait as well, my interview was on {day} and nobody calls."),
                ),
            ),
            Opener(
                says=("{job} offered me the position.", "I got the job at {job}!"),
                replies=(
                    Reply(Intent.AGREE, "Congratulations on the job, you deserve this position."),
                    Reply(
                        Intent.ASK,
                        "When do you start in your new position at {job}?",
                        "On the first of {month}, straight after the holiday.",
                    ),
                    Reply(Intent.ADVISE, "Ask about the salary before you sign the contract with {job}."),
                    Reply(Intent.JOKE, "Then the first lunch from your new salary is on you."),
                    Reply(Intent.TELL, "The contract of {job} has a trial period of three months, as everywhere."),
                    Reply(Intent.DECLINE, "I would still wait for the second offer before you accept the position."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Thank you, the interview feels a bit easier now."),
            FollowUp(Intent.ASK, "I have to look up the details of the position at {job}."),
            FollowUp(Intent.ADVISE, "Good advice, I write that on my interview notes."),
            FollowUp(Intent.DECLINE, "You may be right, I think about {job} again."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I breathe in and out until the interview is over."),
            FollowUp(Intent.JOKE, "Ha, that would at least make the interview unforgettable."),
            FollowUp(Intent.TELL, "Good to know how {job} does things."),
        ),
        later=(
            "My notes for the interview already cover three pages.",
            "A firm handshake matters more than a printed folder.",
            "The way to {job} takes forty minutes by tram.",
            "At the end of an interview I always forget my own questions.",
            "A trial day at {job} says more than any interview.",
        ),
        closings=("Fingers crossed for the interview!", "I tell you on {day} how it went at {job}."),
    ),
    Topic(
        name="meetings",
        subject="the meeting",
        slots={
            "topic": (
                "the budget",
                "the holiday plan",
                "the new website",
                "the office party",
                "the parking spaces",
                "the safety training",
            ),
        },
        openers=(
            Opener(
                says=("The meeting about {topic} is moved to {day}.", "They moved the meeting about {topic} to {day}."),
                replies=(
                    Reply(Intent.AGREE, "Fine with me, on {day} I have more time to prepare {topic}."),
                    Reply(Intent.DECLINE, "On {day} I am away, can we find another date for the meeting?"),
                    Reply(
                        Intent.ASK,
                        "At what time does the meeting about {topic} begin on {day}?",
                        "At {time}, in the small room upstairs.",
                    ),
                    Reply(
                        Intent.ADVISE,
                        "Please change the calendar entry too, otherwise half of us miss the meeting.",
                    ),
                    Reply(Intent.TELL, "The room for the meeting on {day} is already taken by the trainees."),
                    Reply(Intent.JOKE, "Move the meeting about {topic} to next year and nobody will notice."),
                ),
            ),
            Opener(
                says=(
                    "The meeting about {topic} went on for three hours.",
                    "We talked about {topic} for three hours in the meeting.",
                ),
                replies=(
                    Reply(Intent.SYMPATHISE, "Three hours of {topic}, you must be worn out."),
                    Reply(Intent.ADVISE, "Next time set an agenda, then the meeting ends after one hour."),
                    Reply(
                        Intent.ASK,
                        "Did you at least decide something about {topic}?",
                        "Only that there will be another meeting.",
                    ),
                    Reply(Intent.AGREE, "I sat through it as well, after an hour nobody listened any more."),
                    Reply(Intent.TELL, "Most of the meeting could have been a short message about {topic}."),
                    Reply(Intent.JOKE, "I brought a pillow to the last meeting about {topic}."),
                ),
            ),
            Opener(
                says=("Who takes the minutes at the meeting?", "We need someone for the minutes about {topic}."),
                replies=(
                    Reply(Intent.AGREE, "I can write the minutes, I type fast enough."),
                    Reply(Intent.DECLINE, "Not me, I wrote the minutes in the last two meetings."),
                    Reply(Intent.ADVISE, "Let's take turns with the minutes, in the order of the alphabet."),
                    Reply(Intent.TELL, "The trainee takes the minutes on {day}, it was agreed."),
                    Reply(
                        Intent.ASK,
                        "Do the minutes have to be sent out on the same day?",
                        "By {time} on the following day is enough.",
                    ),
                    Reply(Intent.JOKE, "My minutes would only contain the biscuits."),
                ),
            ),
            Opener(
                says=(
                    "Can you summarise what was said about {topic}?",
                    "I missed the meeting, what did they say about {topic}?",
                ),
                replies=(
                    Reply(
                        Intent.TELL,
                        "Briefly, {topic} will be settled in {month} and everybody sends ideas until then.",
                    ),
                    Reply(Intent.AGREE, "Sure, I send you my notes about {topic} after lunch."),
                    Reply(Intent.DECLINE, "I left early myself, please ask the others about {topic}."),
                    Reply(
                        Intent.ASK,
                        "Do you want the short version of {topic} or all the details?",
                        "The short version, please, I have ten minutes.",
                    ),
                    Reply(Intent.ADVISE, "Read the minutes in the shared folder, page two is about {topic}."),
                    Reply(Intent.JOKE, "Everyone was in favour of {topic} and against doing the work."),
                ),
            ),
            Opener(
                says=("My microphone never works in video meetings.", "Nobody could hear me in the video meeting."),
                replies=(
                    Reply(
                        Intent.ADVISE,
                        "Check the settings before the video meeting, often the wrong microphone is chosen.",
                    ),
                    Reply(
                        Intent.ASK,
                        "Do you use a headset or the microphone of the laptop?",
                        "The headset, the laptop one only crackles.",
                    ),
                    Reply(Intent.SYMPATHISE, "Talking for minutes and nobody hears you, how frustrating."),
                    Reply(Intent.TELL, "There is a small mute switch on the cable of the microphone."),
                    Reply(Intent.AGREE, "Mine is the same, I end each video meeting in the chat window."),
                    Reply(Intent.JOKE, "Some people pay for the silence in video meetings."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Good, then the meeting about {topic} is settled."),
            FollowUp(Intent.ASK, "I have to look into the calendar for the meeting."),
            FollowUp(Intent.ADVISE, "I will suggest that at the next meeting."),
            FollowUp(Intent.DECLINE, "Then we talk about {topic} without a fixed date."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I need fresh air and no more {topic}."),
            FollowUp(Intent.JOKE, "Ha, the boss would even pay for that meeting."),
            FollowUp(Intent.TELL, "Thanks, now I know where {topic} stands."),
        ),
        later=(
            "There should be a clock on the wall of the meeting room.",
            "The best ideas about {topic} come in the coffee break.",
            "The projector in the meeting room has a green stripe.",
            "I keep my part about {topic} to five minutes.",
            "Standing meetings are shorter, we should try that.",
        ),
        closings=("See you in the meeting on {day}.", "I have to go, the next meeting starts."),
    ),
    Topic(
        name="home-office",
        subject="working from home",
        slots={
            "dist": (
                "the radio next door",
                "the doorbell",
                "the building site",
                "the cat",
                "the fridge",
                "the washing up",
            ),
        },
        openers=(
            Opener(
                says=(
                    "I can't concentrate at home because of {dist}.",
                    "When I work from home {dist} keeps distracting me.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Close the door, put on headphones and work in blocks of forty minutes."),
                    Reply(Intent.AGREE, "It is the same for me, {dist} wins every hour."),
                    Reply(Intent.SYMPATHISE, "That is tough, working from home with {dist} around."),
                    Reply(
                        Intent.ASK,
                        "Is there a room of your own where you can work at home?",
                        "Only a corner of the bedroom behind a shelf.",
                    ),
                    Reply(Intent.TELL, "In the library there are quiet desks with sockets, I go there on {day}."),
                    Reply(Intent.JOKE, "Hire {dist} as your assistant."),
                ),
            ),
            Opener(
                says=("How many days do you work from home?", "Are you working from home on {day}?"),
                replies=(
                    Reply(Intent.TELL, "I work from home on {day} and in the office for the rest of the week."),
                    Reply(Intent.DECLINE, "I never work from home, I need the office and the people."),
                    Reply(Intent.AGREE, "Yes, on {day} I am at home, call me any time before {time}."),
                    Reply(
                        Intent.ASK,
                        "Does your boss allow you to choose the days at home?",
                        "Two days a week, but never {day}.",
                    ),
                    Reply(Intent.JOKE, "I am at home every day, I only work on some of them."),
                    Reply(Intent.ADVISE, "Fix the same home days as your team, that makes lunch easier."),
                ),
            ),
            Opener(
                says=(
                    "My back hurts from the kitchen chair I work on.",
                    "Sitting on a kitchen chair at home ruins my back.",
                ),
                replies=(
                    Reply(Intent.ADVISE, "Ask the firm for a proper office chair, they often have old ones to give."),
                    Reply(Intent.SYMPATHISE, "Ouch, eight hours on a kitchen chair would break anyone's back."),
                    Reply(Intent.TELL, "A cushion and a box under the screen made my back much better."),
                    Reply(
                        Intent.ASK,
                        "Have you tried standing for part of the working day?",
                        "At the ironing board, and it was surprisingly good.",
                    ),
                    Reply(Intent.AGREE, "Mine hurts too, I do stretches between two calls."),
                    Reply(Intent.DECLINE, "The chair is not the problem, you never get up for a break."),
                ),
            ),
            Opener(
                says=("I miss the lunch with my colleagues.", "At home lunch is so lonely."),
                replies=(
                    Reply(Intent.AGREE, "Me too, a sandwich at the home desk is not a lunch."),
                    Reply(Intent.ADVISE, "Let's have lunch together on {day} in the park between our flats."),
                    Reply(
                        Intent.ASK,
                        "Would a video lunch be too silly?",
                        "A bit silly, but better than talking to {dist}.",
                    ),
                    Reply(Intent.TELL, "The whole team comes to the office on {day} just for the lunch."),
                    Reply(Intent.JOKE, "I have lunch with {dist}, the talks are deep."),
                    Reply(Intent.DECLINE, "I enjoy my quiet lunch at home, nobody talks about work."),
                ),
            ),
            Opener(
                says=(
                    "The firm wants everyone back in the office in {month}.",
                    "From {month} we all have to work in the office again.",
                ),
                replies=(
                    Reply(Intent.SYMPATHISE, "What a pity, you had got used to the quiet mornings at home."),
                    Reply(Intent.AGREE, "Good, I say, the office has heating, coffee and other people."),
                    Reply(Intent.DECLINE, "Not with me, I signed a contract for working from home."),
                    Reply(
                        Intent.ASK,
                        "Do they want you in the office every day of the week?",
                        "Four days, with {day} at home.",
                    ),
                    Reply(Intent.ADVISE, "Talk to your boss before {month} and ask for one home day."),
                    Reply(Intent.JOKE, "Who will look after {dist} then?"),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "So we share the same trouble of working from home."),
            FollowUp(Intent.ASK, "I have to ask my boss about the home days."),
            FollowUp(Intent.ADVISE, "I try that with my headphones tomorrow."),
            FollowUp(Intent.DECLINE, "Fair enough, everybody works in a different way."),
            FollowUp(Intent.SYMPATHISE, "Thanks, a walk after work helps a little."),
            FollowUp(Intent.JOKE, "Ha, {dist} would ask for a higher salary."),
            FollowUp(Intent.TELL, "I didn't know that, I will suggest it to the team."),
        ),
        later=(
            "Without the train ride I sleep an hour longer.",
            "In video calls I wear a shirt above and pyjamas below.",
            "The kitchen table is an office until {time}, then it is a kitchen again.",
            "A plant next to the screen is good for the eyes.",
            "{dist} always comes when I have to speak.",
        ),
        closings=("My next call begins, talk to you later.", "Enjoy your day at home!"),
    ),
    Topic(
        name="presentation",
        subject="the presentation",
        slots={
            "sub": (
                "bees",
                "the history of our town",
                "solar power",
                "our new product",
                "Roman roads",
                "healthy school meals",
            ),
        },
        openers=(
            Opener(
                says=(
                    "I have to give a presentation about {sub} on {day}.",
                    "My presentation about {sub} is on {day} and I'm so nervous.",
                ),
                replies=(
                    Reply(Intent.SYMPATHISE, "I know the feeling, before a presentation my knees shake too."),
                    Reply(
                        Intent.ADVISE,
                        "Practise the presentation about {sub} aloud, three times, in front of a mirror.",
                    ),
                    Reply(
                        Intent.ASK,
                        "How long is your presentation about {sub} supposed to be?",
                        "Twenty minutes and then questions.",
                    ),
                    Reply(Intent.AGREE, "You will do well, nobody knows more about {sub} than you."),
                    Reply(Intent.JOKE, "Imagine the audience as cabbages that like {sub}."),
                    Reply(Intent.TELL, "The room for the presentation has no microphone, so speak up on {day}."),
                ),
            ),
            Opener(
                says=(
                    "How many slides do you use for twenty minutes?",
                    "Are forty slides too many for a presentation?",
                ),
                replies=(
                    Reply(Intent.TELL, "Ten slides are plenty for twenty minutes about {sub}."),
                    Reply(Intent.DECLINE, "Forty slides are far too many, the audience will fall asleep."),
                    Reply(Intent.ADVISE, "Put one thought on each slide and leave the rest to your voice."),
                    Reply(
                        Intent.ASK,
                        "Are there many pictures on your slides about {sub}?",
                        "Mostly pictures, hardly any text.",
                    ),
                    Reply(Intent.AGREE, "I always make too many slides as well, then I rush."),
                    Reply(Intent.JOKE, "With forty slides you could show {sub} as a film."),
                ),
            ),
            Opener(
                says=(
                    "Nobody asked a question after my presentation.",
                    "After my talk about {sub} there was complete silence.",
                ),
                replies=(
                    Reply(Intent.SYMPATHISE, "That silence feels awful, but your talk about {sub} was clear."),
                    Reply(Intent.ADVISE, "End the talk with a question of your own, then the audience wakes up."),
                    Reply(Intent.TELL, "No questions often means that the audience understood everything about {sub}."),
                    Reply(
                        Intent.ASK,
                        "Was it just before lunch when you gave the talk?",
                        "Yes, all of them looked at the clock.",
                    ),
                    Reply(Intent.AGREE, "I had the same silence after mine, people are shy."),
                    Reply(Intent.JOKE, "They were speechless because of {sub}."),
                ),
            ),
            Opener(
                says=("Could you look over my slides about {sub}?", "Do you have time to check my slides?"),
                replies=(
                    Reply(Intent.AGREE, "Of course, send the slides and I mark typing errors in red."),
                    Reply(Intent.DECLINE, "Not before {day}, I am working on my own slides."),
                    Reply(
                        Intent.ASK,
                        "Should I check only the spelling of the slides or also the facts about {sub}?",
                        "Both, and whether the jokes work.",
                    ),
                    Reply(Intent.ADVISE, "Ask my {kin}, who knows {sub} and has a sharp eye for slides."),
                    Reply(Intent.TELL, "On the second slide the year is wrong, the rest about {sub} looks good."),
                    Reply(Intent.JOKE, "I look over the slides if I get a cake for each error."),
                ),
            ),
            Opener(
                says=("The projector did not work during my talk.", "I had to speak about {sub} without a projector."),
                replies=(
                    Reply(Intent.SYMPATHISE, "How dreadful, and you had such nice pictures of {sub}."),
                    Reply(Intent.ADVISE, "Always bring the slides on paper, a projector fails when it is needed."),
                    Reply(Intent.AGREE, "In my talk the projector died as well, I drew {sub} on the board."),
                    Reply(
                        Intent.ASK,
                        "Was it the projector or the cable to your laptop?",
                        "The cable, one pin was bent.",
                    ),
                    Reply(Intent.TELL, "The caretaker keeps a second projector in the cellar."),
                    Reply(Intent.JOKE, "Shadow play would have been an option for {sub}."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Thank you, that gives me courage for the presentation."),
            FollowUp(Intent.ASK, "I will check that when I go through the slides tonight."),
            FollowUp(Intent.ADVISE, "I put that into the presentation right away."),
            FollowUp(Intent.DECLINE, "You are right, I shorten the part about {sub}."),
            FollowUp(Intent.SYMPATHISE, "Thanks, next time I bring water and deep breaths."),
            FollowUp(Intent.JOKE, "Ha, cabbages would at least not look at their phones."),
            FollowUp(Intent.TELL, "Then ten slides about {sub} it is."),
        ),
        later=(
            "A good first sentence about {sub} is half of the talk.",
            "I speak too fast when I am nervous.",
            "The pictures of {sub} have to be large enough for the last row.",
            "There will be a handout about {sub} for everyone.",
        ),
        closings=("Break a leg with the presentation!", "I go back to my slides about {sub}."),
    ),
    Topic(
        name="exam",
        subject="the exam",
        slots={
            "subj": ("mathematics", "chemistry", "geography", "Latin", "biology", "history", "statistics"),
        },
        openers=(
            Opener(
                says=("I have an exam in {subj} on {day}.", "On {day} I sit my {subj} exam."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Don't be afraid, you have studied {subj} for weeks."),
                    Reply(Intent.ADVISE, "Sleep well before the exam, nobody learns {subj} at three in the morning."),
                    Reply(
                        Intent.ASK,
                        "What comes up in the {subj} exam, the whole book?",
                        "The first nine chapters, and I'm at four.",
                    ),
                    Reply(Intent.AGREE, "I sit the {subj} exam too, let's study together until {day}."),
                    Reply(Intent.JOKE, "In my {subj} exam I only knew my name."),
                    Reply(Intent.TELL, "The {subj} exam on {day} lasts two hours, with a break."),
                ),
            ),
            Opener(
                says=("I failed the exam in {subj}.", "I didn't pass my {subj} exam."),
                replies=(
                    Reply(Intent.SYMPATHISE, "I'm sorry to hear that, you put so much work into {subj}."),
                    Reply(Intent.ADVISE, "Look through the exam with the teacher, then you know the gaps in {subj}."),
                    Reply(Intent.TELL, "The {subj} exam can be repeated in {month}, nearly half have to."),
                    Reply(Intent.AGREE, "I failed {subj} too, we do it better in {month}."),
                    Reply(Intent.ASK, "By how many points did you fail the exam?", "By two points, which hurts most."),
                    Reply(Intent.JOKE, "The exam failed to see your talent for {subj}."),
                ),
            ),
            Opener(
                says=("Could you explain {subj} to me?", "I don't understand anything in {subj}."),
                replies=(
                    Reply(Intent.AGREE, "Yes, come on {day}, I explain {subj} with apples and cake."),
                    Reply(Intent.DECLINE, "{subj} was my worst subject, ask my {kin}."),
                    Reply(Intent.ASK, "Which part of {subj} is unclear to you?", "Everything after the first lesson."),
                    Reply(Intent.ADVISE, "Watch the short lessons on {subj} that the library lends."),
                    Reply(Intent.TELL, "The older students give free help in {subj} each {day}."),
                    Reply(Intent.JOKE, "I could explain {subj}, but then we are both confused."),
                ),
            ),
            Opener(
                says=("How do you learn for so many exams?", "I can't keep anything in my head for the exam."),
                replies=(
                    Reply(Intent.TELL, "I write small cards for each exam and carry them in my pocket."),
                    Reply(Intent.ADVISE, "Learn {subj} for half an hour, then walk, then repeat it aloud."),
                    Reply(Intent.AGREE, "My head is full too, {subj} has pushed out my phone number."),
                    Reply(
                        Intent.ASK,
                        "Do you learn better in the morning or at night?",
                        "At night, but then I can't sleep.",
                    ),
                    Reply(Intent.DECLINE, "Don't learn everything, in the {subj} exam half the chapters never come."),
                    Reply(Intent.JOKE, "I put the book about {subj} under my pillow."),
                ),
            ),
            Opener(
                says=("When do we get the results of the {subj} exam?", "Are the results in {subj} out yet?"),
                replies=(
                    Reply(Intent.TELL, "The results of the {subj} exam hang on the board from {day}."),
                    Reply(Intent.DECLINE, "Not yet, the {subj} teacher is still correcting."),
                    Reply(
                        Intent.ASK,
                        "Do you have a good feeling about your result in {subj}?",
                        "Half good, the last task was strange.",
                    ),
                    Reply(Intent.AGREE, "I look for the results every hour as well."),
                    Reply(Intent.ADVISE, "Ask in the office, the {subj} results are often there before."),
                    Reply(Intent.JOKE, "The results are so good that they are being framed."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then {subj} is only half as bad."),
            FollowUp(Intent.ASK, "I look into my {subj} notes and tell you."),
            FollowUp(Intent.ADVISE, "I try that for the rest of {subj}."),
            FollowUp(Intent.DECLINE, "Alright, then I fight with {subj} alone."),
            FollowUp(Intent.SYMPATHISE, "Thanks, after the exam I sleep for a week."),
            FollowUp(Intent.JOKE, "Ha, at least the exam was fun for someone."),
            FollowUp(Intent.TELL, "Good to know, so the {subj} exam isn't everything."),
        ),
        later=(
            "My notes on {subj} fill three folders.",
            "A pen that works is half the exam.",
            "The teacher of {subj} speaks so softly.",
            "In {month} all this learning will be over.",
            "My {kin} asks me {subj} questions over dinner.",
        ),
        closings=("Good luck in the {subj} exam!", "I go back to my {subj} book, bye."),
    ),
)
