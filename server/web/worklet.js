// Sound in and out on the audio thread. Samples are float32 mono; the wire's rate is 24 kHz.
const WIRE_HZ = 24_000;
const BLOCK = 480; // 20 ms
const CUSHION = 0.06 * WIRE_HZ; // a reply starts once this much of it is here, so that late packets are not heard
const FADE = 0.008 * WIRE_HZ;

const level = (samples) => Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / Math.max(1, samples.length));

// Cuts the microphone into blocks of 20 ms. Some browsers keep the device's rate: those are brought to 24 kHz.
class Microphone extends AudioWorkletProcessor {
  block = new Float32Array(BLOCK);
  filled = 0;
  step = sampleRate / WIRE_HZ;
  at = 0; // where the next output sample lies, in samples of this input
  last = 0;

  process([[input]]) {
    if (!input) return true;
    for (; this.at < input.length; this.at += this.step) {
      const left = Math.floor(this.at);
      const before = left ? input[left - 1] : this.last;
      this.put(before + (input[left] - before) * (this.at - left));
    }
    this.at -= input.length;
    this.last = input[input.length - 1];
    return true;
  }

  put(sample) {
    this.block[this.filled++] = sample;
    if (this.filled < BLOCK) return;
    this.port.postMessage({ block: this.block, level: level(this.block) }, [this.block.buffer]);
    this.block = new Float32Array(BLOCK);
    this.filled = 0;
  }
}

// Plays a reply from a queue. "flush" fades it out at once; a queue that runs dry fills its cushion again.
class Speaker extends AudioWorkletProcessor {
  queue = [];
  offset = 0;
  held = 0;
  playing = false;
  complete = false;
  fading = 0;
  played = 0; // samples of this reply that have sounded
  gaps = 0;
  quanta = 0;
  loudest = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this[data.do](data);
  }

  begin() {
    this.clear();
    this.complete = false;
    this.played = 0;
  }

  push({ samples }) {
    if (this.fading) this.clear(); // what is being faded out is not followed by this
    this.queue.push(samples);
    this.held += samples.length;
  }

  end() {
    this.complete = true;
  }

  flush() {
    if (this.playing) this.fading ||= FADE;
    else this.clear();
  }

  process(_inputs, [[output]]) {
    this.playing ||= this.held >= CUSHION || (this.complete && this.held > 0);
    if (this.playing) this.play(output);
    this.loudest = Math.max(this.loudest, level(output));
    if (++this.quanta % 8 === 0) this.report();
    return true;
  }

  play(output) {
    for (let i = 0; i < output.length; i++) {
      if (!this.held) return this.runDry();
      output[i] = this.next() * (this.fading ? this.fading / FADE : 1);
      if (this.fading && !--this.fading) return this.clear();
    }
  }

  next() {
    const sample = this.queue[0][this.offset++];
    if (this.offset === this.queue[0].length) {
      this.queue.shift();
      this.offset = 0;
    }
    this.held--;
    this.played++;
    return sample;
  }

  runDry() {
    if (!this.complete) this.gaps++;
    this.clear();
  }

  clear() {
    this.queue = [];
    this.offset = this.held = this.fading = 0;
    this.playing = false;
  }

  report() {
    const { played, playing, held, gaps, loudest } = this;
    this.port.postMessage({ played_ms: (played / WIRE_HZ) * 1000, playing, held, gaps, level: loudest });
    this.loudest = 0;
  }
}

registerProcessor("microphone", Microphone);
registerProcessor("speaker", Speaker);
