// What every client here does, wherever it runs: speaks recordings into an open microphone, and notes what came back.
const PIECE_BYTES = 960; // 20 ms at 24 kHz
const HEADER_BYTES = 44;
const PATIENCE_MS = 90_000;

/** One conversation: where it takes place, what is said in it, and what its own user would know of it. */
export class Talk {
  report = { transcripts: [], replies: [], audio_bytes: 0, interruptions: 0, errors: [] };
  #settle;
  #over = new Promise((finish, fail) => {
    this.#settle = { finish, fail };
  });

  /** The recordings are WAV files' bytes: 16-bit mono at 24 kHz. */
  constructor(url, question, interruption) {
    this.url = url;
    this.question = question.subarray(HEADER_BYTES);
    this.interruption = interruption.subarray(HEADER_BYTES);
  }

  finish() {
    this.#settle.finish();
  }

  /** The report, once the conversation is finished. */
  async finished() {
    const impatience = () => this.#settle.fail(new Error(`no end after ${PATIENCE_MS} ms: ${JSON.stringify(this.report)}`));
    const late = setTimeout(impatience, PATIENCE_MS);
    await this.#over;
    clearTimeout(late);
    return this.report;
  }
}

/** Sends sound in real time: what was said into it, silence otherwise. */
export class Microphone {
  #sound = new Uint8Array(0);

  constructor(send) {
    const began = Date.now();
    let sent = 0;
    setInterval(() => {
      for (; sent * 20 < Date.now() - began; sent += 1) {
        const piece = new Uint8Array(PIECE_BYTES);
        piece.set(this.#sound.subarray(0, PIECE_BYTES));
        this.#sound = this.#sound.subarray(PIECE_BYTES);
        send(piece);
      }
    }, 10);
  }

  say(sound) {
    this.#sound = Uint8Array.from([...this.#sound, ...sound]);
  }
}
