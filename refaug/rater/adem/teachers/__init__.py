"""What the heads of emotion and meaning learn from: teachers, which say of a text what a head is to predict of it.

Ghandeharioun et al. (2019) have two: DeepMoji's 64 probabilities of emojis, and InferSent's vectors, reduced to the
directions that hold 95 % of their variance. Any other may stand in; artefacts have its name.

The main names:

- `teacher.Teacher`: what says it
- `emotion.WordEmotions`: emotions of the words of a lexicon
- `meaning.MeaningTeacher`: vectors of an encoder in the directions of their variance.
"""
