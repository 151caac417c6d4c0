import { $ } from "./dom.js";

// The echoic memory: a bar for each of the last speech segments, the newest first, which pale while nobody is heard.
export class Memory {
  #box = $("memory");
  #full_s = 1;

  show({ weights, left_s, fading }) {
    clearInterval(this.timer);
    if (!fading) this.#full_s = left_s || 1;
    const bars = weights.toReversed().map((weight) => {
      const bar = document.createElement("i");
      bar.style.setProperty("--weight", weight);
      return bar;
    });
    this.#box.querySelector("span").replaceChildren(...bars);
    this.#box.classList.toggle("empty", !weights.length);
    const count = `${weights.length} of the last speech segments`;
    const label = !weights.length ? "nothing is held" : fading ? `${count}, gone in ${left_s.toFixed(0)} seconds` : count;
    this.#box.setAttribute("aria-label", `Echoic memory: ${label}`);
    const gone = performance.now() + left_s * 1000;
    const run = () => this.#fade(fading ? Math.max(0, gone - performance.now()) / 1000 : left_s, fading);
    run();
    if (fading) this.timer = setInterval(run, 100);
  }

  #fade(left_s, fading) {
    this.#box.style.setProperty("--left", Math.min(1, left_s / this.#full_s).toFixed(2));
    this.#box.querySelector("b").textContent = fading ? `${left_s.toFixed(1)} s` : "";
  }

  clear() {
    this.show({ weights: [], left_s: 0, fading: false });
  }
}
