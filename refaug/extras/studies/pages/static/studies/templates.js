/** What a new study's texts begin with, by language; […] is what its author has to fill in before it can open. */

export const GAP = "[…]"; // what the service refuses to open with

const TEMPLATES = {
  en: {
    title: "Study",
    consent: `# About this study

We study how well chatbots converse. You chat with some of them, or read what they wrote, and say what you think of it.

- It takes about […] minutes, and you are paid […].
- Chatbots may say wrong or unpleasant things. You may skip a task, and stop at any time.
- We store your messages and your answers under a code. We store no name, no address of your computer and no name of your browser.
- You may withdraw at any time; then your messages and answers are erased.
- Questions: […]`,
    guidelines: "# What to do\n\nWrite as you would to somebody whom you have just met. Do not write anything about yourself that others should not know.",
  },
  de: {
    title: "Studie",
    consent: `# Über diese Studie

Wir untersuchen, wie gut sich Chatbots unterhalten. Sie sprechen mit einigen von ihnen oder lesen, was sie geschrieben haben, und sagen, was Sie davon halten.

- Die Teilnahme dauert etwa […] Minuten und wird mit […] vergütet.
- Chatbots können Falsches oder Unangenehmes sagen. Sie können eine Aufgabe überspringen und jederzeit aufhören.
- Wir speichern Ihre Nachrichten und Ihre Antworten unter einem Code. Wir speichern keinen Namen, keine Adresse Ihres Computers und keinen Namen Ihres Browsers.
- Sie können Ihre Teilnahme jederzeit widerrufen; dann werden Ihre Nachrichten und Antworten gelöscht.
- Fragen: […]`,
    guidelines: "# Was zu tun ist\n\nSchreiben Sie so, wie Sie jemandem schreiben würden, den Sie gerade kennengelernt haben. Schreiben Sie nichts über sich, was andere nicht wissen sollen.",
  },
};
const NONE = { title: "", consent: "", guidelines: "" }; // of other languages: nobody reads a text in a language that is not the study's

export const templateOf = (language) => TEMPLATES[language.trim().toLowerCase().split("-")[0] || "en"] ?? NONE;

/** Let texts that are still a template follow the language; what somebody wrote stays. `fields` are title, consent and guidelines. */
export function followLanguage(language, fields) {
  let shown = templateOf(language.value);
  language.addEventListener("input", () => {
    const next = templateOf(language.value);
    for (const [name, field] of Object.entries(fields)) if (field.value === shown[name]) field.value = next[name];
    shown = next;
  });
}
