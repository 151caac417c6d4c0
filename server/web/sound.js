// The user's sound from the microphone, and the reply's to the speaker.

export const WIRE_HZ = 24_000;

export const encode = (block) => {
  const pcm = Int16Array.from(block, (x) => Math.max(-1, Math.min(1, x)) * 32767);
  return btoa(String.fromCharCode(...new Uint8Array(pcm.buffer)));
};

export const decode = (base64) => {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return Float32Array.from(new Int16Array(bytes.buffer), (x) => x / 32768);
};

export class Sound {
  onblock = () => {};
  onplayed = () => {};
  heardLevel = 0;
  spokenLevel = 0;
  played_ms = 0;
  playing = false;
  gaps = 0;

  async openSpeaker() {
    if (this.speaker) return this.context.resume();
    this.context = new AudioContext({ sampleRate: WIRE_HZ, latencyHint: "interactive" });
    await Promise.all([this.context.audioWorklet.addModule("worklet.js"), this.context.resume()]);
    this.speaker = new AudioWorkletNode(this.context, "speaker", { numberOfInputs: 0, outputChannelCount: [1] });
    this.speaker.port.onmessage = ({ data }) => {
      Object.assign(this, { played_ms: data.played_ms, playing: data.playing, gaps: data.gaps });
      this.spokenLevel = data.level;
      this.onplayed();
    };
    this.speaker.connect(this.context.destination);
  }

  async openMicrophone(device) {
    if (!navigator.mediaDevices) throw new DOMException("", "InsecureContext");
    this.closeMicrophone();
    const wanted = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };
    this.stream = await navigator.mediaDevices.getUserMedia({
      audio: device ? { ...wanted, deviceId: { exact: device } } : wanted,
    });
    const node = await this.#tap(this.stream);
    node.port.onmessage = ({ data }) => {
      this.heardLevel = data.level;
      this.onblock(data.block);
    };
  }

  async #tap(stream) {
    try {
      return this.#connect(this.context, stream);
    } catch (error) {
      if (error.name !== "NotSupportedError") throw error;
      // This browser reads a microphone at the device's rate only: the worklet brings it to the wire's.
      this.own = new AudioContext();
      await this.own.audioWorklet.addModule("worklet.js");
      return this.#connect(this.own, stream);
    }
  }

  #connect(context, stream) {
    const node = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 });
    context.createMediaStreamSource(stream).connect(node);
    return node;
  }

  closeMicrophone() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.own?.close();
    this.stream = this.own = null;
    this.heardLevel = 0;
  }

  tell(message) {
    this.speaker?.port.postMessage(message);
  }
}
