"""What people say about films, books and music: written for this project, as data for core.demo.generator."""

from __future__ import annotations

from core.demo.topics_model import FollowUp, Intent, Opener, Reply, Topic

CULTURE = (
    Topic(
        name="films",
        subject="the film",
        slots={
            "genre": (
                "a detective film",
                "a love story",
                "a horror film",
                "a silent film",
                "a cartoon",
                "a film about whales",
                "a science fiction film",
            ),
        },
        openers=(
            Opener(
                says=("Shall we watch {genre} on {day}?", "I'd like to see {genre} in the cinema on {day}."),
                replies=(
                    Reply(Intent.AGREE, "Yes, {genre} with popcorn is just right for {day}."),
                    Reply(Intent.DECLINE, "Not {genre} again, I fell asleep in the last one."),
                    Reply(
                        Intent.ASK,
                        "In which cinema do they show {genre}?",
                        "In the little one behind the market, row seats only.",
                    ),
                    Reply(Intent.ADVISE, "Book seats in the middle for {genre}, the sound is best there."),
                    Reply(Intent.TELL, "{genre} starts at {time}, with half an hour of adverts before."),
                    Reply(Intent.JOKE, "I'll come, if you hold my hand and the popcorn during {genre}."),
                ),
            ),
            Opener(
                says=("I didn't understand the end of the film.", "What did the end of {genre} mean?"),
                replies=(
                    Reply(Intent.TELL, "The end shows that it had all been a dream of the old sailor."),
                    Reply(Intent.AGREE, "I did not understand the end either, why was the door open?"),
                    Reply(
                        Intent.ASK,
                        "Did you notice the letter in the first scene of the film?",
                        "No, I was buying ice cream.",
                    ),
                    Reply(Intent.ADVISE, "Watch the film a second time, the end makes sense then."),
                    Reply(Intent.JOKE, "The end meant that we had to go home."),
                    Reply(Intent.DECLINE, "There is nothing to understand, the film just stops."),
                ),
            ),
            Opener(
                says=("Which film made you cry?", "What is your favourite film?"),
                replies=(
                    Reply(Intent.TELL, "I cried at {genre} about a dog who waits at a bridge."),
                    Reply(Intent.AGREE, "I love {genre}, I could watch one every week."),
                    Reply(Intent.DECLINE, "I never cry in films, except about the ticket price."),
                    Reply(
                        Intent.ASK,
                        "Do you mean my favourite film ever or of this year?",
                        "Of this year, I need an idea for {day}.",
                    ),
                    Reply(Intent.ADVISE, "Watch the old black and white one with the lighthouse, my favourite."),
                    Reply(Intent.JOKE, "My holiday video is the saddest film ever made."),
                ),
            ),
            Opener(
                says=("The people behind me talked during the whole film.", "Somebody chatted through all of {genre}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "How rude, then you can't follow {genre} at all."),
                    Reply(Intent.ADVISE, "Turn round and smile, most talkers fall silent in a film then."),
                    Reply(Intent.AGREE, "On {day} I sat in front of talkers too, I moved to another row."),
                    Reply(
                        Intent.ASK,
                        "Did nobody from the cinema tell them to stop talking?",
                        "No, the usher was asleep.",
                    ),
                    Reply(Intent.TELL, "Late shows are quieter, the talkers go to the early film."),
                    Reply(Intent.JOKE, "Perhaps they were explaining {genre} to you."),
                ),
            ),
            Opener(
                says=("The book is better than the film.", "They changed the whole book for the film."),
                replies=(
                    Reply(Intent.AGREE, "True, in the book the sister is the hero, in the film she only cooks."),
                    Reply(Intent.DECLINE, "I prefer the film, the book has two hundred pages about fog."),
                    Reply(
                        Intent.ASK,
                        "Did you read the book before or after the film?",
                        "Before, that was my mistake.",
                    ),
                    Reply(Intent.TELL, "A film of two hours can't keep all the people of a book."),
                    Reply(Intent.ADVISE, "Listen to the audio book, it is between the book and the film."),
                    Reply(Intent.JOKE, "I wait for the film of the film."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Great, then we have the same taste in films."),
            FollowUp(Intent.ASK, "I think the poster says something about it."),
            FollowUp(Intent.ADVISE, "I will do that at the next film."),
            FollowUp(Intent.DECLINE, "Then I go to see {genre} without you."),
            FollowUp(Intent.SYMPATHISE, "Thanks, next time we watch the film at home."),
            FollowUp(Intent.JOKE, "Ha, that would be a better ending than the real one."),
            FollowUp(Intent.TELL, "Aha, now I see {genre} with other eyes."),
        ),
        later=(
            "The music of the film is still in my head.",
            "In the cinema my feet always stick to the floor.",
            "The actress played the grandmother brilliantly.",
            "I never watch trailers, they tell the whole film.",
            "On {day} the cinema tickets cost half.",
        ),
        closings=("See you at the cinema!", "Enjoy the film, and switch off the phone."),
    ),
    Topic(
        name="library",
        subject="the library",
        has_desk=True,
        slots={
            "book": (
                "a crime novel",
                "a book about birds",
                "a cookery book",
                "a history of the railway",
                "a book of fairy tales",
                "a travel guide",
                "a gardening book",
            ),
        },
        openers=(
            Opener(
                says=("Do you have {book} in the library?", "I'm looking for {book} in the library."),
                replies=(
                    Reply(Intent.AGREE, "Yes, {book} stands on the second shelf next to the window."),
                    Reply(Intent.DECLINE, "{book} is on loan until {day}, I can reserve it for you."),
                    Reply(
                        Intent.ASK,
                        "Do you look for {book} for adults or for children?",
                        "For my {kin}, who is ten.",
                    ),
                    Reply(Intent.ADVISE, "Type the title into the library catalogue, it shows the shelf."),
                    Reply(Intent.TELL, "We keep {book} in the cellar, it can be here at {time}."),
                    Reply(Intent.JOKE, "{book} is hiding, we are reading the clues."),
                ),
            ),
            Opener(
                says=("I forgot to return {book} on time.", "{book} has been overdue since {day}."),
                replies=(
                    Reply(Intent.TELL, "The fee for an overdue book is a few coins a week."),
                    Reply(Intent.ADVISE, "Return {book} through the flap at night, then no further day is counted."),
                    Reply(Intent.SYMPATHISE, "No harm done, nobody was waiting for {book}."),
                    Reply(
                        Intent.ASK,
                        "Would you like to keep {book} for two more weeks?",
                        "Yes please, I'm only at chapter three.",
                    ),
                    Reply(Intent.DECLINE, "You can't extend {book}, another reader has reserved it."),
                    Reply(Intent.AGREE, "My books are overdue too, the library must be rich by now."),
                ),
            ),
            Opener(
                says=("Can you recommend something to read?", "I need something to read for {month}."),
                replies=(
                    Reply(Intent.ADVISE, "Read {book}, I finished it in one night."),
                    Reply(Intent.AGREE, "I look for a new book as well, the library has a table of new ones."),
                    Reply(
                        Intent.ASK,
                        "Do you like long novels or rather short stories?",
                        "Long ones, so that they last.",
                    ),
                    Reply(Intent.TELL, "Many readers ask for {book} at the moment."),
                    Reply(Intent.DECLINE, "Not {book} again, everybody has read that in {month}."),
                    Reply(Intent.JOKE, "Read the manual of the washing machine, it is full of surprises."),
                ),
            ),
            Opener(
                says=("How do I get a library card?", "I'd like a library card for my {kin}."),
                replies=(
                    Reply(Intent.TELL, "For a library card we need a passport and a signature."),
                    Reply(Intent.AGREE, "Gladly, I can make the library card for you right now."),
                    Reply(
                        Intent.ASK,
                        "Will the library card be for a child or an adult?",
                        "For an adult, and a student.",
                    ),
                    Reply(Intent.DECLINE, "Without proof of your address we can't make a library card."),
                    Reply(Intent.ADVISE, "Fill in the form for the library card at home, that saves time."),
                    Reply(Intent.JOKE, "With the library card you get a licence for whispering."),
                ),
            ),
            Opener(
                says=("It is so noisy in the reading room.", "I can't read here, the reading room is full of talking."),
                replies=(
                    Reply(
                        Intent.SYMPATHISE,
                        "I'm sorry about the noise, I will speak to the group in the reading room.",
                    ),
                    Reply(Intent.ADVISE, "Go to the upper reading room, no talking is allowed there."),
                    Reply(Intent.TELL, "A school class visits the library until {time}, afterwards it is silent."),
                    Reply(Intent.AGREE, "It disturbs me too, one can hear each word in the reading room."),
                    Reply(
                        Intent.ASK,
                        "Shall I give you a key to the small study room?",
                        "That would be wonderful, my exam is on {day}.",
                    ),
                    Reply(Intent.DECLINE, "This is the room for groups, the quiet reading room is upstairs."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Lovely, then I take {book} home today."),
            FollowUp(Intent.ASK, "I have to look at my list of books first."),
            FollowUp(Intent.ADVISE, "I do that as soon as I am in the library."),
            FollowUp(Intent.DECLINE, "Then please reserve {book} for me."),
            FollowUp(Intent.SYMPATHISE, "Thanks, I like the library in spite of it."),
            FollowUp(Intent.JOKE, "Ha, I whisper that joke to the next reader."),
            FollowUp(Intent.TELL, "Good, then I come to the library on {day}."),
        ),
        later=(
            "{book} smells of old paper and vanilla.",
            "Someone wrote little notes beside the text.",
            "The library is closed on {day} because of stocktaking.",
            "I read on the tram and miss my stop each time.",
            "There are too many unread books beside my bed.",
        ),
        closings=("Thank you, until {day} in the library.", "Enjoy reading {book}!"),
    ),
    Topic(
        name="concert",
        subject="the concert",
        slots={
            "act": (
                "a string quartet",
                "a brass band",
                "a jazz trio",
                "a children's choir",
                "a folk group",
                "an organ player",
            ),
            "hall": ("the town hall", "the old church", "the harbour stage", "the park", "the school gym"),
        },
        openers=(
            Opener(
                says=(
                    "{act} plays at {hall} on {day}, shall we go?",
                    "There is a concert with {act} at {hall} on {day}.",
                ),
                replies=(
                    Reply(Intent.AGREE, "Yes, let's go, I have wanted to hear {act} for a long time."),
                    Reply(Intent.ASK, "What do the tickets for {act} cost?", "Twelve at the door, less for students."),
                    Reply(Intent.DECLINE, "I don't like {act}, and {hall} has such hard seats."),
                    Reply(Intent.ADVISE, "Buy the tickets early, {hall} holds only two hundred people."),
                    Reply(Intent.TELL, "On {day} the concert starts at {time}, after a short speech."),
                    Reply(Intent.JOKE, "I come if {act} plays my request, silence."),
                ),
            ),
            Opener(
                says=("The concert with {act} was sold out.", "I didn't get tickets for {act}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "What a pity, you had been looking forward to {act}."),
                    Reply(Intent.ADVISE, "Go to {hall} an hour before the concert, some tickets come back."),
                    Reply(
                        Intent.ASK,
                        "Did you ask whether {act} gives a second concert?",
                        "They do, but only in {month}.",
                    ),
                    Reply(Intent.TELL, "The concert is on the radio on {day}, so you can listen at home."),
                    Reply(Intent.AGREE, "I did not get tickets either, they were gone in minutes."),
                    Reply(Intent.JOKE, "Stand outside {hall}, the windows are thin."),
                ),
            ),
            Opener(
                says=("I have to play in front of people at {hall}.", "On {day} I play in a concert with {act}."),
                replies=(
                    Reply(Intent.SYMPATHISE, "I understand your stage fright, before a concert my fingers are ice."),
                    Reply(Intent.ADVISE, "Eat a banana an hour before the concert and breathe slowly."),
                    Reply(Intent.AGREE, "How exciting, I'll sit in the first row of {hall} and clap."),
                    Reply(
                        Intent.ASK,
                        "Which pieces will you play at the concert?",
                        "A slow one from the north and two dances.",
                    ),
                    Reply(Intent.TELL, "The sound in {hall} is kind, wrong notes get lost in the roof."),
                    Reply(Intent.JOKE, "If you forget the notes, bow and call it modern."),
                ),
            ),
            Opener(
                says=("My ears were ringing after the concert.", "The concert at {hall} was far too loud."),
                replies=(
                    Reply(Intent.ADVISE, "Wear ear plugs at a concert, the music is clearer with them."),
                    Reply(Intent.SYMPATHISE, "Ringing ears are unpleasant, I hope it is gone by {day}."),
                    Reply(
                        Intent.ASK,
                        "Did you stand next to the speakers at {hall}?",
                        "Right in front of them, by accident.",
                    ),
                    Reply(Intent.TELL, "If the ringing lasts more than a day, see an ear doctor."),
                    Reply(Intent.DECLINE, "It wasn't too loud, {act} has to be felt in the belly."),
                    Reply(Intent.AGREE, "My ears hurt as well, I stood at the door for the last songs."),
                ),
            ),
            Opener(
                says=("Do you sing in the choir at {hall}?", "I want to join the choir, do you know it?"),
                replies=(
                    Reply(Intent.AGREE, "Yes, the choir meets on {day}, come along to a rehearsal."),
                    Reply(Intent.DECLINE, "I sing only in the shower, the choir would pay me to leave."),
                    Reply(
                        Intent.ASK,
                        "Are you looking for a choir with old or with modern songs?",
                        "Modern songs, and without an audition.",
                    ),
                    Reply(Intent.TELL, "The choir at {hall} needs low voices most of all."),
                    Reply(Intent.ADVISE, "Listen to the choir once before you join, they sing in {month}."),
                    Reply(Intent.JOKE, "In our choir I open my mouth like a fish, nobody has noticed."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Wonderful, I will meet you in front of {hall}."),
            FollowUp(Intent.ASK, "I look at the programme of the concert for that."),
            FollowUp(Intent.ADVISE, "I remember that for the next concert."),
            FollowUp(Intent.DECLINE, "Then I take my {kin} to the concert."),
            FollowUp(Intent.SYMPATHISE, "Thanks, the second half made up for it."),
            FollowUp(Intent.JOKE, "Ha, the conductor would faint."),
            FollowUp(Intent.TELL, "Good to know, I write the concert into the calendar."),
        ),
        later=(
            "The drummer of the support band was twelve years old.",
            "In {hall} the coat check takes longer than the music.",
            "I still hum the last song of {act}.",
            "My {kin} danced in the aisle until {time}.",
            "A concert in {month} under the open sky is magical.",
        ),
        closings=("See you at {hall}, I have the tickets!", "The lights go out, I must switch off the phone."),
    ),
    Topic(
        name="music-lessons",
        subject="the music lesson",
        slots={
            "instr": (
                "the guitar",
                "the violin",
                "the trumpet",
                "the piano",
                "the cello",
                "the flute",
                "the accordion",
            ),
        },
        openers=(
            Opener(
                says=("I'm learning {instr} since {month}.", "In {month} I started lessons on {instr}."),
                replies=(
                    Reply(Intent.AGREE, "How nice, {instr} was my dream as a child."),
                    Reply(Intent.ASK, "How often do you practise {instr}?", "Half an hour a day, except on {day}."),
                    Reply(Intent.ADVISE, "Practise {instr} slowly, speed comes by itself."),
                    Reply(Intent.SYMPATHISE, "The first months with {instr} are hard, hold on."),
                    Reply(Intent.JOKE, "Your neighbours have learned to love {instr} by now."),
                    Reply(Intent.TELL, "With {instr} one can play simple songs after ten lessons."),
                ),
            ),
            Opener(
                says=("Do you know a good teacher for {instr}?", "I'm looking for lessons on {instr}."),
                replies=(
                    Reply(Intent.AGREE, "Yes, my {kin} teaches {instr} and is very patient."),
                    Reply(Intent.TELL, "The music school has free places for {instr} from {month}."),
                    Reply(Intent.DECLINE, "A teacher is not needed, I learned {instr} from videos."),
                    Reply(Intent.ASK, "Do you want single lessons on {instr} or a group?", "Single lessons, I am shy."),
                    Reply(Intent.ADVISE, "Take a trial lesson with two teachers of {instr} and compare."),
                    Reply(Intent.JOKE, "I teach {instr}, but only the parts with a pause."),
                ),
            ),
            Opener(
                says=("My fingers hurt from practising {instr}.", "After an hour of {instr} my fingers are sore."),
                replies=(
                    Reply(Intent.SYMPATHISE, "Poor fingers, with {instr} that is normal in the beginning."),
                    Reply(Intent.ADVISE, "Make a break every ten minutes and hold {instr} more loosely."),
                    Reply(
                        Intent.ASK,
                        "Is it the tips of the fingers or the whole hand?",
                        "The tips, they are red and hard.",
                    ),
                    Reply(Intent.TELL, "After a few weeks of {instr} the skin gets used to it."),
                    Reply(Intent.AGREE, "Mine hurt for a month, now {instr} feels light."),
                    Reply(Intent.JOKE, "Play {instr} with your toes for a change."),
                ),
            ),
            Opener(
                says=("I can't keep the rhythm on {instr}.", "With {instr} I always get faster and faster."),
                replies=(
                    Reply(Intent.ADVISE, "Set a metronome to sixty and play {instr} with it."),
                    Reply(Intent.TELL, "Tapping your foot helps to keep the rhythm."),
                    Reply(Intent.AGREE, "I speed up too, mostly in the bars that I fear."),
                    Reply(
                        Intent.ASK,
                        "Does the rhythm get lost in slow pieces as well?",
                        "In slow ones I nearly fall asleep.",
                    ),
                    Reply(Intent.DECLINE, "Forget the rhythm, first learn the notes on {instr}."),
                    Reply(Intent.JOKE, "You are not too fast, the song is too slow."),
                ),
            ),
            Opener(
                says=("Will you play {instr} at the party on {day}?", "Could you bring {instr} to the party on {day}?"),
                replies=(
                    Reply(Intent.AGREE, "With pleasure, I have three songs ready for {instr}."),
                    Reply(Intent.DECLINE, "I don't dare to play {instr} before people."),
                    Reply(Intent.ASK, "Which songs should I prepare on {instr}?", "Something that everyone can sing."),
                    Reply(Intent.ADVISE, "Ask my {kin}, who plays {instr} far better."),
                    Reply(Intent.TELL, "{instr} is being repaired until {day}, so I can only sing."),
                    Reply(Intent.JOKE, "I play {instr} until the last guest has left, so for ten minutes."),
                ),
            ),
        ),
        follow_ups=(
            FollowUp(Intent.AGREE, "Then we could play a duet one day."),
            FollowUp(Intent.ASK, "I ask my teacher that in the next lesson."),
            FollowUp(Intent.ADVISE, "I try that when I practise {instr} tonight."),
            FollowUp(Intent.DECLINE, "Fine, then I play {instr} only for myself."),
            FollowUp(Intent.SYMPATHISE, "Thanks, music needs patience, they say."),
            FollowUp(Intent.JOKE, "Ha, my metronome has just resigned."),
            FollowUp(Intent.TELL, "Good, I will call the music school about {instr}."),
        ),
        later=(
            "A new set of strings changes the sound at once.",
            "{instr} from my grandfather is still in its case.",
            "The neighbours knock when I practise after {time}.",
            "I recorded myself on {instr} and deleted it at once.",
            "Scales are boring, but they warm up the hands.",
        ),
        closings=("I practise {instr} now, close the windows!", "Have fun in the music lesson."),
    ),
)
