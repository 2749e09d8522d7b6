/** Words of replies and references: which reference credited which word, and with what weight. */

import { element, printable } from "./dom.js";

/**
 * Return a text in pieces; pieces that are tokens have their place among the tokens. A token that the tokenizer has
 * changed beyond its case is not shown as one.
 */
export function aligned(text, tokens) {
  const lower = text.toLowerCase(), pieces = [];
  const isAligned = lower.length === text.length;
  let at = 0;
  tokens.forEach((token, place) => {
    const found = isAligned ? lower.indexOf(token.toLowerCase().replace(/^(##|▁|Ġ)/u, ""), at) : -1;
    if (found < 0 || found > at + 40 || !token) return;
    if (found > at) pieces.push({ text: text.slice(at, found) });
    const end = found + token.replace(/^(##|▁|Ġ)/u, "").length;
    pieces.push({ text: text.slice(found, end), place, token });
    at = end;
  });
  if (at < text.length) pieces.push({ text: text.slice(at) });
  return pieces;
}

const LETTER = /[\p{L}\p{N}]/u;
const SPACELESS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

/** Return a text in pieces; those that are one of some words name it. */
export function marked(text, words) {
  const lower = text.toLowerCase(), pieces = [];
  if (lower.length !== text.length) return [{ text }];
  const sorted = [...new Set(words)].filter(Boolean).sort((first, second) => second.length - first.length);
  let at = 0, plain = 0;
  while (at < text.length) {
    const word = sorted.find((one) => lower.startsWith(one, at) && isWhole(lower, at, one));
    if (word === undefined) { at += 1; continue; }
    if (at > plain) pieces.push({ text: text.slice(plain, at) });
    pieces.push({ text: text.slice(at, at + word.length), word });
    at += word.length;
    plain = at;
  }
  if (plain < text.length) pieces.push({ text: text.slice(plain) });
  return pieces;
}

function isWhole(text, at, word) {
  if (SPACELESS.test(word) || !LETTER.test(word)) return true;
  return !LETTER.test(text[at - 1] ?? " ") && !LETTER.test(text[at + word.length] ?? " ");
}

/**
 * Return what an explanation says, by the places of the words of the reply: `credits` are n-grams with the reference
 * that credited them, `matches` the words of references that resemble a word.
 */
export function explained(explanation) {
  const tokens = explanation?.words ?? [], byPlace = tokens.map(() => ({ credits: [], matches: [] }));
  for (const credit of explanation?.credited ?? []) {
    const ngram = credit.ngram.split(" ");
    for (let at = 0; at + ngram.length <= tokens.length; at += 1) {
      if (!ngram.every((word, offset) => tokens[at + offset] === word)) continue;
      for (let offset = 0; offset < ngram.length; offset += 1) byPlace[at + offset].credits.push(credit);
    }
  }
  for (const match of explanation?.matched ?? []) {
    match.reply.forEach((row, place) => {
      if (row.match !== null && byPlace[place]) byPlace[place].matches.push({ reference: match.reference, weight: match.weight, ...row });
    });
  }
  for (const about of byPlace) about.matches.sort((first, second) => second.similarity * second.weight - first.similarity * first.weight);
  return { tokens, byPlace };
}

/** Return the words of a reference that credited or matched something, by its place. */
export function wordsOfReference(explanation, reference) {
  const words = [];
  for (const credit of explanation?.credited ?? []) if (credit.reference === reference) words.push(...credit.ngram.split(" "));
  for (const match of explanation?.matched ?? []) {
    if (match.reference === reference) words.push(...match.words.filter((row) => row.match !== null).map((row) => row.word));
  }
  return words;
}

/** Return pieces as elements: words that can be pointed at, as buttons or spans, and plain text between them. */
export function pieces(list, describe, tag = "button") {
  return list.map((piece) => {
    const about = piece.place === undefined && piece.word === undefined ? null : describe(piece);
    if (about === null) return printable(piece.text);
    return element(tag, { type: tag === "button" ? "button" : null, class: `word ${about.sign}`, ...about.attributes }, printable(piece.text));
  });
}
