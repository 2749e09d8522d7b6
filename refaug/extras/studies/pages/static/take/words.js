/** What the participants' page says; other languages than English are files in languages/, with the same names. */

const ENGLISH = {
  adult: "What the chatbots say may be unsuitable for minors.",
  agree: "I have read this, I am of age, and I agree to take part.",
  agree_first: "To go on, please say that you agree.",
  all_right: "All as expected.",
  answer_first: "Please answer this question.",
  answer_some: "{count} more to answer",
  ask_again: "Ask for the reply again",
  away: "The study does not answer at the moment. Nothing that you did is lost: this page waits, and goes on by itself.",
  back_to_chat: "Back to the conversation",
  begin: "Begin",
  bot: "Chatbot",
  bot_left: "Left chatbot",
  bot_right: "Right chatbot",
  changed_elsewhere: "This was changed in another tab or on another device. Here is how it stands now.",
  characters_left: "{count} of at most {most} characters",
  check_answers: "Check my answers",
  choose_all: "choose all that fit",
  close: "Close",
  close_and_rate: "Close the chat and rate it",
  closed: "This study is closed",
  closed_text: "It takes no further answers. Thank you for your interest.",
  code: "Your code",
  code_text: "Enter this code where you were asked to take part.",
  consent: "Before you begin",
  conversation: "The conversation",
  conversation_left: "Left conversation",
  conversation_right: "Right conversation",
  copied: "Copied",
  copy: "Copy the code",
  decline: "I do not want to take part",
  declined: "You do not take part",
  declined_text: "Nothing about you was stored. You can close this page.",
  done: "Thank you!",
  done_text: "You have done everything. Your answers are stored.",
  down: "bad reply",
  elsewhere: "Go on elsewhere",
  elsewhere_text: "With this link you go on at the same place in another browser or on another device. Do not pass it on: it opens your answers.",
  end: "End of the chat: it has {most} turns, which is the most. Please rate it now.",
  enough: "Enough to rate it; you may also go on",
  failed: "No reply came. That is not your fault.",
  finish: "Done, go on",
  full: "All places are taken",
  full_text: "Enough people have taken part in this study. Thank you for your interest.",
  go_on: "Go on",
  guest: "Guest",
  guidelines: "What to do",
  keep: "Keep taking part",
  keep_link: "Your link, to go on later or elsewhere",
  least_turns: "Turn {done} of at least {least}",
  left: "Left",
  link_bad: "This link does not open a study",
  link_missing: "This page opens with the link of an invitation. Please use the whole link that you were sent.",
  long: "This is too long: {count} characters, and {most} are the most. Please shorten it.",
  mark_chosen: "Chosen: “{text}”",
  mark_how: "Drag over words of the text, or press the first and then the last one.",
  mark_remove: "Remove: {text}",
  mark_text: "Text to mark: arrow keys move, Enter chooses the first and then the last word",
  message: "Your message",
  more_turns: "Turn {done}",
  my_data: "My data",
  my_data_text: "This is all that the study has stored about you.",
  next_task: "Next task",
  no_reply: "No reply",
  none_of_these: "None of these",
  not_all_right: "Not all of it is as expected.",
  of: "{done} of {of} done",
  optional: "optional",
  other_task: "Go on with another task",
  paused: "This study has a break. Your answers are stored; please come back later.",
  pay: "You are paid {money} when you have done everything.",
  pay_minutes: "You are paid {money} when you have done everything; it is meant to take {minutes} minutes.",
  rate: "Your rating",
  rate_replies: "Please answer what is asked below each reply, too.",
  ready: "Your next task",
  ready_first: "Your first task",
  reference: "Possible reply",
  reply: "Reply",
  reply_left: "Left reply",
  reply_right: "Right reply",
  return: "Go back to the page that you came from",
  right: "Right",
  save: "Save as a file",
  screened_out: "Thank you for your interest",
  screened_out_text: "This study looks for other participants this time. That says nothing about you.",
  send: "Send",
  sending: "being sent …",
  skip: "Skip this task",
  skip_link: "Skip to the content",
  skip_reasons: "I do not understand it\nIt is unpleasant or offensive\nSomething does not work\nI would rather not say",
  skip_why: "Why do you skip it?",
  slider_none: "not set yet",
  slider_set: "Set to the middle",
  speaker_left: "Speaker L",
  speaker_right: "Speaker R",
  start_task: "Start",
  title: "Study",
  training: "Practice",
  training_again: "Some answers were not as expected. Please read what to do once more; you can practise again.",
  training_text: "A few examples first. You see at once whether your answers are as expected.",
  try_right: "That is as expected.",
  try_wrong: "Expected here: {value}",
  unanswered: "The chatbot has no reply to this. Please put it in other words.",
  undo: "Undo",
  up: "good reply",
  waiting: "One moment …",
  withdraw: "Withdraw from the study",
  withdraw_text: "Your messages and answers are erased. It is only kept that somebody withdrew. This cannot be undone.",
  withdraw_yes: "Erase and withdraw",
  withdrawn: "You have withdrawn",
  withdrawn_text: "Your messages and answers are erased.",
  writing: "is writing …",
  you: "You",
  your_turn: "Your turn",
};

const RIGHT_TO_LEFT = new Set(["ar", "dv", "fa", "he", "ku", "ps", "ur", "yi"]);
let words = ENGLISH, spoken = "en", ofStudy = "en";

const base = (language) => language.toLowerCase().split(/[-_]/)[0];
export const directionOf = (language) => (RIGHT_TO_LEFT.has(base(language)) ? "rtl" : "ltr");

/** Speak a language of a study from here on; `file` names that of its words, unless that is English. */
export async function speak(language, file) {
  ofStudy = language;
  let known = null;
  try {
    const answer = file && await fetch(new URL(`languages/${file}.json`, import.meta.url));
    known = answer?.ok ? await answer.json() : null;
  } catch { /* the service went away just now: English will do */ }
  spoken = known || base(ofStudy) === "en" ? ofStudy : "en"; // of other languages, only the texts of the study are
  words = { ...ENGLISH, ...known };
}

export const spokenLanguage = () => spoken;
export const studyLanguage = () => ofStudy;

/** Return a sentence with its values. */
export const say = (name, values = {}) => words[name].replace(/\{(\w+)\}/g, (whole, key) => (key in values ? String(values[key]) : whole));
