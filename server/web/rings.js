// The echo: rings that leave the middle with the sound, yours and the reply's.

import { $ } from "./dom.js";

const RING_MS = 1600;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const canvas = $("orb").querySelector("canvas");
const pen = canvas.getContext("2d");

// Thirty pictures a second, and none while nothing sounds: the machine has better things to do.
export function showRings(sound) {
  const rings = [];
  let strongest = 0;
  let drawn = 0;
  const draw = (now) => {
    requestAnimationFrame(draw);
    if (now - drawn < 30) return;
    drawn = now;
    const state = document.body.dataset.state;
    const before = strongest;
    strongest = Math.max(loudness(sound, state), strongest * 0.85);
    if (strongest < 0.01) strongest = 0;
    if (strongest > 0.06 && now - (rings.at(-1)?.born ?? 0) > 170) {
      rings.push({ born: now, strength: strongest, speaking: state === "speaking" });
    }
    if (!rings.length && strongest === before) return;
    while (rings.length && now - rings[0].born > RING_MS) rings.shift();
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const style = getComputedStyle(canvas);
    for (const ring of rings) drawRing(ring, now, style);
    $("orb").style.setProperty("--loud", strongest.toFixed(2));
  };
  requestAnimationFrame(draw);
}

function loudness(sound, state) {
  if (calm.matches || state === "off") return 0;
  return Math.min(1, 6 * (state === "speaking" && sound.playing ? sound.spokenLevel : sound.heardLevel));
}

function drawRing({ born, strength, speaking }, now, style) {
  const age = (now - born) / RING_MS;
  const middle = canvas.width / 2;
  pen.globalAlpha = 0.75 * strength * 0.7 ** (age * 5) * (1 - age);
  pen.strokeStyle = style.getPropertyValue(speaking ? "--accent" : "--you");
  pen.lineWidth = 2 + 5 * strength * (1 - age);
  pen.beginPath();
  pen.arc(middle, middle, middle * (0.4 + 0.56 * age), 0, 2 * Math.PI);
  pen.stroke();
}
