// Light colouring of code: comments, strings, numbers, words of the language, names that are called. One pass, one
// regular expression per language, made of parts without nested repetition.
import {h} from "./dom.js";

const kMaxCharacters = 100000; // longer code stays plain

const words = (text) => new Set(text.split(" "));
const c = words(
    "alignas as assert async auto await bool break case catch char class const constexpr continue crate data def default defer delete do double dyn else enum explicit export extends extern false final finally float fn for friend from fun func function go goto if impl implements import in inline instanceof int interface internal is lambda let long loop match mod module mut namespace new nil noexcept null nullptr object of operator override package private protected pub public range record return select self short signed sizeof static struct super switch template this throw throws trait true try type typedef typename typeof union unsafe unsigned use using val var virtual void volatile where while yield");
const python = words(
    "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda match case None nonlocal not or pass raise return self True try while with yield");
const shell = words(
    "if then else elif fi for in do done while until case esac function return local export readonly set unset shift exit cd echo sudo source");
const sql = words(
    "select from where and or not in is null join left right inner outer full on as group by order having limit offset insert into values update set delete create table index view drop alter primary key foreign references unique distinct union all case when then else end exists between like with asc desc count sum avg min max integer text varchar boolean");
const literals = words("true false null yes no on off");

const slashes = "//[^\\n]*|/\\*[^]*?(?:\\*/|$)", hash = "#[^\\n]*", dashes = "--[^\\n]*";
const quoted = "\"(?:[^\"\\\\\\n]|\\\\[^])*\"?|'(?:[^'\\\\\\n]|\\\\[^])*'?";
const templates = "`(?:[^`\\\\]|\\\\[^])*`?";
const triple = "\"\"\"[^]*?(?:\"\"\"|$)|'''[^]*?(?:'''|$)";

const grammar = (comment, string, keywords, ignoreCase = false) => ({
  keywords,
  ignoreCase,
  pattern: new RegExp(
      `(?<comment>${comment})|(?<string>${
          string})|(?<number>\\b(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\w?\\b)|(?<word>[A-Za-z_$][\\w$]*)(?<call>\\s{0,3}\\()?`,
      "g")
});

const languages = {
  c: grammar(slashes, quoted, c),
  js: grammar(slashes, `${quoted}|${templates}`, c),
  python: grammar(hash, `${triple}|${quoted}`, python),
  shell: grammar(hash, quoted, shell),
  sql: grammar(`${dashes}|/\\*[^]*?(?:\\*/|$)`, quoted, sql, true),
  data: grammar(`${hash}|//[^\\n]*`, quoted, literals),
  markup: grammar("<!--[^]*?(?:-->|$)", quoted, new Set()),
};
const names = {
  js: "js javascript jsx ts typescript tsx mjs",
  python: "python py python3",
  shell: "sh bash zsh shell console dockerfile makefile make",
  sql: "sql sqlite postgresql mysql",
  data: "json jsonc yaml yml toml ini",
  markup: "html xml svg vue",
  c: "c cpp c++ cc h hpp cuda cs csharp java kotlin go golang rust rs swift scala dart php css scss zig"
};
const byName =
    new Map(Object.entries(names).flatMap(([key, list]) => list.split(" ").map((name) => [name, languages[key]])));

/** A fragment with the code, coloured where the language is known. */
export function highlight(code, language) {
  const fragment = document.createDocumentFragment();
  const rules = byName.get(language);
  if (language === "diff") fragment.append(...diff(code));
  else if (!rules || code.length > kMaxCharacters) fragment.append(code);
  else fragment.append(...colour(code, rules));
  return fragment;
}

function* diff(code) {
  for (const line of code.split(/(?<=\n)/)) {
    const kind = line[0] === "+" ? "added" : line[0] === "-" ? "removed" : line[0] === "@" ? "word" : null;
    yield kind ? h("span", {class: `code-${kind}`}, line) : line;
  }
}

function* colour(code, {pattern, keywords, ignoreCase}) {
  let end = 0;
  for (const match of code.matchAll(pattern)) {
    const {comment, string, number, word, call} = match.groups;
    const kind = comment                                     ? "comment" :
        string                                               ? "string" :
        number                                               ? "number" :
        keywords.has(ignoreCase ? word.toLowerCase() : word) ? "word" :
        call                                                 ? "call" :
                                                               null;
    if (!kind) continue;
    if (match.index > end) yield code.slice(end, match.index);
    const text = word ?? match[0];
    yield h("span", {class: `code-${kind}`}, text);
    end = match.index + text.length;
  }
  if (end < code.length) yield code.slice(end);
}
