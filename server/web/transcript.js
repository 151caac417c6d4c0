// What was said, on the page: a bubble for each side's words, and what every part of an answer took.

import { $, make } from "./dom.js";

const PARTS = {
  pause_seen: "hearing the pause",
  asr_final: "recognising the words",
  first_token: "thinking",
  first_phrase: "phrasing",
  first_audio_made: "speaking",
  turn_end_decided: "being sure you are done",
  first_audio_sent: "sending",
  heard: "reaching your ear",
};

export function follow() {
  const box = $("scroller");
  $("welcome").hidden = true;
  box.scrollTop = box.scrollHeight;
}

// One side's words. Certain and heard ones come first, what may change or was not said yet follows.
export class Bubble {
  constructor(kind, name) {
    this.sure = make("span", "sure");
    this.rest = make("span", "rest");
    this.element = make("li", kind, make("span", "unseen", `${name}: `), make("p", "", this.sure, this.rest));
    $("talk").append(this.element);
    follow();
  }

  show(sure, rest = "") {
    if (this.sure.textContent === sure && this.rest.textContent === rest) return;
    this.sure.textContent = sure;
    this.rest.textContent = rest;
    follow();
  }
}

export class Reply extends Bubble {
  text = "";
  received_ms = 0;
  words = [];
  done = false;

  constructor(id) {
    super("reply", "Echoic");
    this.id = id;
    this.element.classList.add("saying");
  }

  // The words that have sounded by now are found in the text one after the other.
  highlight(played_ms) {
    let end = 0;
    for (const word of this.words) {
      if (word.start_ms > played_ms) break;
      const found = this.text.indexOf(word.text, end);
      if (found >= 0) end = found + word.text.length;
    }
    if (!this.done || this.words.length) this.show(this.text.slice(0, end), this.text.slice(end));
  }

  end(response, played_ms) {
    this.done = true;
    this.element.dataset.playedMs = played_ms;
    this.element.classList.remove("saying");
    const cut = response.status === "cancelled";
    const said = response.output[0]?.content?.[0];
    if (cut) this.element.classList.add("cut");
    if (!this.words.length && !cut) this.show(this.text);
    if (!cut && said) this.text = said.transcript ?? said.text ?? this.text;
    if (!this.text) this.element.remove();
  }
}

export function waterfall(record, heard_ms) {
  const marks = Object.entries(record.marks_ms).sort(([, a], [, b]) => a - b);
  if (heard_ms) marks.push(["heard", record.marks_ms.first_audio_sent + heard_ms]);
  const total = marks.at(-1)?.[1];
  if (!(total > 0)) return null;
  const bar = make("span", "bar");
  const told = [];
  let before = 0;
  for (const [name, at] of marks) {
    const ms = Math.max(0, at - before);
    before = Math.max(before, at);
    const part = make("i", name);
    part.style.flexGrow = ms / total;
    part.title = `${PARTS[name]}: ${Math.round(ms)} ms`;
    bar.append(part);
    if (ms >= 1) told.push(part.title);
  }
  const figure = make("div", "waterfall", bar, make("b", "", `${(total / 1000).toFixed(2)} s`));
  figure.setAttribute("role", "img");
  figure.setAttribute("aria-label", `Answered after ${(total / 1000).toFixed(2)} seconds. ${told.join(", ")}`);
  return figure;
}
