// What every client here does: speaks recordings into an open microphone, and reports what came back as JSON.
import { readFileSync } from "node:fs";

const PIECE_BYTES = 960; // 20 ms at 24 kHz
const HEADER_BYTES = 44;
const PATIENCE_MS = 90_000;

export const [url, question, interruption] = process.argv.slice(2);

export const report = { transcripts: [], replies: [], audio_bytes: 0, interruptions: 0, tool_calls: [], errors: [] };

/** Sends sound in real time: what was said into it, silence otherwise. */
export class Microphone {
  #sound = Buffer.alloc(0);
  #timer;

  constructor(send) {
    const began = Date.now();
    let sent = 0;
    this.#timer = setInterval(() => {
      for (; sent * 20 < Date.now() - began; sent += 1) {
        const piece = Buffer.alloc(PIECE_BYTES);
        this.#sound.copy(piece, 0, 0, PIECE_BYTES);
        this.#sound = this.#sound.subarray(PIECE_BYTES);
        send(piece);
      }
    }, 10);
  }

  /** Speak a recording: 16-bit mono at 24 kHz. */
  say(path) {
    this.#sound = Buffer.concat([this.#sound, readFileSync(path).subarray(HEADER_BYTES)]);
  }

  close() {
    clearInterval(this.#timer);
  }
}

/** Tell what happened and leave. */
export function finish() {
  process.stdout.write(`${JSON.stringify(report)}\n`, () => process.exit(0));
}

setTimeout(() => {
  process.stderr.write(`no end after ${PATIENCE_MS} ms: ${JSON.stringify(report)}\n`);
  process.exit(1);
}, PATIENCE_MS);
