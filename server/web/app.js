// The page: a client of the server's own Realtime endpoint, with nothing between the two.
// Beyond the protocol it asks for Echoic's extras: the words as they are heard and spoken, each turn's latency,
// how much the echoic memory holds, and a session that outlives a lost connection.

const WIRE_HZ = 24_000;
const WAITING_BLOCKS = 250; // 5 s of the user's sound are kept while the connection is lost
const TRIES = 8;
const $ = (id) => document.getElementById(id);

// --- sound ---

const encode = (block) => {
  const pcm = Int16Array.from(block, (x) => Math.max(-1, Math.min(1, x)) * 32767);
  return btoa(String.fromCharCode(...new Uint8Array(pcm.buffer)));
};

const decode = (base64) => {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return Float32Array.from(new Int16Array(bytes.buffer), (x) => x / 32768);
};

class Sound {
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

// --- the session ---

class Session {
  lost_ms = 0; // of the user's sound
  onevent = () => {};
  onlost = () => {};
  onended = () => {};
  #waiting = [];
  #tries = 0;
  #token = "";
  #last = "";
  #done = false;

  constructor(key) {
    this.key = key;
    this.#connect();
  }

  #connect() {
    const query = new URLSearchParams([["echoic", "timing"], ["echoic", "words"], ["echoic", "memory"], ["echoic", "resume"]]);
    if (this.#token) query.append("token", this.#token);
    if (this.#token && this.#last) query.append("last", this.#last);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const protocols = ["realtime", ...(this.key ? [`openai-insecure-api-key.${this.key}`] : [])];
    this.socket = new WebSocket(`${scheme}://${location.host}/v1/realtime?${query}`, protocols);
    this.socket.onmessage = ({ data }) => this.#take(JSON.parse(data));
    this.socket.onclose = ({ code, reason }) => this.#closed(code, reason);
  }

  #take(event) {
    this.#last = event.event_id;
    if (event.type === "echoic.session") this.#token = event.token;
    if (event.type === "error" && event.error.code === "resume_failed") this.#token = "";
    if (event.type === "session.created" || event.type === "echoic.resumed") {
      this.#tries = 0;
      this.open = true;
    }
    this.onevent(event);
    if (this.open) for (const waiting of this.#waiting.splice(0)) this.send(waiting);
  }

  #closed(code, reason) {
    this.open = false;
    const hopeless = [3000, 4000, 1008, 1009].includes(code) || this.#tries >= TRIES;
    if (this.#done || hopeless) return this.onended(code, reason);
    const seconds = this.#tries ? Math.min(4, 0.25 * 2 ** this.#tries) : 0;
    this.#tries++;
    this.onlost(code, reason);
    this.timer = setTimeout(() => this.#connect(), seconds * 1000);
  }

  send(event) {
    if (this.open) return this.socket.send(JSON.stringify(event));
    this.#waiting.push(event);
    if (this.#waiting.length > WAITING_BLOCKS) {
      this.#waiting.shift();
      this.lost_ms += 20;
    }
  }

  close() {
    this.#done = true;
    clearTimeout(this.timer);
    if (this.socket.readyState > WebSocket.OPEN) this.onended(1000, "");
    this.socket.close(1000);
  }
}

// --- what is shown ---

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

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...children);
  return element;
}

// One side's words. Certain and heard ones come first, what may change or was not said yet follows.
class Bubble {
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

class Reply extends Bubble {
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

  end(response) {
    this.done = true;
    this.element.dataset.playedMs = sound.played_ms;
    this.element.classList.remove("saying");
    const cut = response.status === "cancelled";
    const said = response.output[0]?.content?.[0];
    if (cut) this.element.classList.add("cut");
    if (!this.words.length && !cut) this.show(this.text);
    if (!cut && said) this.text = said.transcript ?? said.text ?? this.text;
    if (!this.text) this.element.remove();
  }
}

function waterfall(record, heard_ms) {
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

// The echoic memory: a bar for each of the last speech segments, the newest first, which pale while nobody is heard.
class Memory {
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

function follow() {
  const box = $("scroller");
  $("welcome").hidden = true;
  box.scrollTop = box.scrollHeight;
}

function complain(text) {
  $("problem").hidden = !text;
  $("problem").firstElementChild.textContent = text;
}

const STATES = {
  off: ["Not connected", "Start", "Start talking"],
  connecting: ["Connecting…", "…", "Give up"],
  lost: ["Connection lost, trying again…", "…", "Give up"],
  listening: ["Listening", "End", "End the conversation"],
  hearing: ["Hearing you", "End", "End the conversation"],
  thinking: ["Thinking", "End", "End the conversation"],
  speaking: ["Speaking", "End", "End the conversation"],
};

function enter(state) {
  const [status, label, name] = STATES[state];
  const pushing = $("push").checked && !["off", "connecting", "lost"].includes(state);
  document.body.dataset.state = state;
  const idle = !sound.stream ? "Connected" : pushing ? "Hold to talk" : status;
  $("status").textContent = state === "listening" ? idle : status;
  $("orb-label").textContent = pushing ? "Hold" : label;
  $("orb").setAttribute("aria-label", pushing ? "Hold to talk" : name);
  $("mute").disabled = state === "off";
  const square = state === "speaking" ? "Stop the reply" : "End the conversation";
  $("hush").disabled = state === "off";
  $("hush").ariaLabel = $("hush").title = square;
}

// --- the conversation ---

const sound = new Sound();
const memory = new Memory();
const users = new Map(); // item -> bubble
let session = null;
let reply = null; // the one that is being made or heard
let carried = ""; // what was heard of a turn that goes on after all
let firstSoundAt = 0;
let heard_ms = 0;
let holding = false;

const handlers = {
  "session.created": () => {
    const vad = $("push").checked ? null : { type: "server_vad" };
    session.send({
      type: "session.update",
      session: { type: "realtime", audio: { input: { transcription: { model: "echoic" }, turn_detection: vad } } },
    });
    enter("listening");
  },
  "echoic.resumed": ({ lost_events }) => {
    const lost = [session.lost_ms && `${(session.lost_ms / 1000).toFixed(1)} s of what you said`, lost_events && "some of the reply"];
    const what = lost.filter(Boolean).join(" and ");
    complain(what ? `The connection was lost for a moment, and ${what} with it.` : "");
    session.lost_ms = 0;
    enter(sound.playing ? "speaking" : "listening");
  },
  "input_audio_buffer.speech_started": ({ item_id }) => {
    if (reply) sound.tell({ do: "flush" });
    const bubble = new Bubble("user", "You");
    bubble.text = carried;
    bubble.show(carried);
    carried = "";
    users.set(item_id, bubble);
    enter("hearing");
  },
  "input_audio_buffer.speech_stopped": () => enter("thinking"),
  "conversation.item.input_audio_transcription.delta": ({ item_id, delta }) => {
    const bubble = users.get(item_id);
    if (bubble) bubble.show((bubble.text += delta));
  },
  "echoic.tail": ({ text }) => {
    const bubble = [...users.values()].at(-1);
    bubble?.show(bubble.text, text);
  },
  "conversation.item.added": ({ item }) => {
    // With push to talk there is no speech_started: the turn's bubble comes with its item.
    if (item.role !== "user" || users.has(item.id) || item.content[0]?.type !== "input_audio") return;
    users.set(item.id, Object.assign(new Bubble("user", "You"), { text: "" }));
  },
  "conversation.item.input_audio_transcription.completed": ({ item_id, transcript }) => {
    const bubble = users.get(item_id);
    if (!transcript) bubble?.element.remove();
    bubble?.show(transcript);
    if (document.body.dataset.state === "thinking" && !transcript) enter("listening");
  },
  "conversation.item.deleted": ({ item_id }) => {
    const bubble = users.get(item_id);
    if (!bubble) return;
    carried = bubble.text;
    bubble.element.remove();
    users.delete(item_id);
  },
  "response.created": ({ response }) => {
    reply = new Reply(response.id);
    firstSoundAt = heard_ms = 0;
    sound.tell({ do: "begin" });
    enter("thinking");
  },
  "response.output_audio_transcript.delta": (event) => handlers["response.output_text.delta"](event),
  "response.output_text.delta": ({ response_id, delta }) => {
    if (reply?.id !== response_id) return;
    reply.text += delta;
    reply.show(reply.sure.textContent, reply.text.slice(reply.sure.textContent.length));
  },
  "echoic.word": (word) => reply?.words.push(word),
  "response.output_audio.delta": ({ response_id, delta }) => {
    if (reply?.id !== response_id) return;
    firstSoundAt ||= performance.now();
    const samples = decode(delta);
    reply.received_ms += (samples.length / WIRE_HZ) * 1000;
    sound.tell({ do: "push", samples });
    enter("speaking");
  },
  "response.output_audio.done": () => sound.tell({ do: "end" }),
  "response.done": ({ response }) => {
    const ended = reply?.id === response.id ? reply : null;
    if (response.status === "cancelled") sound.tell({ do: "flush" });
    if (response.status === "failed") complain(response.status_details?.error?.message ?? "The reply failed.");
    ended?.end(response);
    if (!sound.playing && document.body.dataset.state !== "hearing") enter("listening");
  },
  "echoic.turn": ({ record }) => {
    if (record.status === "no_reply") return enter("listening");
    const figure = waterfall(record, heard_ms);
    if (figure && reply) reply.element.append(figure);
    follow();
  },
  "echoic.memory": (held) => memory.show(held),
  error: ({ error }) => {
    const harmless = ["response_cancel_not_active", "resume_failed", "input_audio_buffer_commit_empty"];
    if (!harmless.includes(error.code)) complain(error.message);
  },
};

sound.onblock = (block) => {
  if (!session) return;
  const silent = $("mute").ariaPressed === "true" || ($("push").checked && !holding);
  if (silent && $("push").checked) return;
  session.send({ type: "input_audio_buffer.append", audio: encode(silent ? new Float32Array(block.length) : block) });
};

sound.onplayed = () => {
  if (sound.playing && firstSoundAt && !heard_ms) heard_ms = performance.now() - firstSoundAt;
  if (reply && !reply.element.classList.contains("cut")) reply.highlight(sound.played_ms);
  if (!sound.playing && reply?.done && document.body.dataset.state === "speaking") enter("listening");
};

const WHY = {
  NotAllowedError: "The microphone is blocked. Allow it for this page in the browser's address bar, or type instead.",
  NotFoundError: "There is no microphone. Plug one in, or type instead.",
  NotReadableError: "Another program has the microphone. Close it, or type instead.",
  OverconstrainedError: "That microphone is gone. Choose another one in the settings.",
  InsecureContext: "Browsers give the microphone to https:// pages and to this machine only. Type instead, or serve with --cert.",
};

async function start() {
  complain("");
  enter("connecting");
  await sound.openSpeaker();
  try {
    await sound.openMicrophone($("microphone").value);
    await listDevices();
  } catch (error) {
    complain(WHY[error.name] ?? `The microphone cannot be used: ${error.message}`);
  }
  connect();
}

function connect() {
  session = new Session($("key").value.trim());
  session.onevent = (event) => handlers[event.type]?.(event);
  session.onlost = (code, reason) => {
    if (code === 1013) complain(`The server is busy: ${reason || "all sessions are taken"}. Trying again…`);
    enter("lost");
  };
  session.onended = (code, reason) => {
    if (code === 3000) askForKey();
    else if (code !== 1000) complain(`The server cannot be reached${reason ? `: ${reason}` : ""}. Is echoic serve running?`);
    stop();
  };
}

function stop() {
  sound.closeMicrophone();
  sound.tell({ do: "flush" });
  memory.clear();
  session = null;
  enter("off");
}

function askForKey() {
  const why = $("key").value ? "The server does not know this key." : "This server asks for a key.";
  complain(why);
  $("key-note").textContent = why; // the dialog hides the complaint
  $("settings").showModal();
  $("key").focus();
}

async function listDevices() {
  const devices = (await navigator.mediaDevices.enumerateDevices()).filter(({ kind }) => kind === "audioinput");
  const chosen = $("microphone").value;
  const options = devices.filter(({ deviceId }) => deviceId !== "default").map(({ deviceId, label }) => new Option(label, deviceId));
  $("microphone").replaceChildren(new Option("The system's", ""), ...options);
  $("microphone").value = chosen;
}

// --- controls ---

const running = () => session && document.body.dataset.state !== "off";

function hush() {
  if (document.body.dataset.state !== "speaking") return;
  sound.tell({ do: "flush" });
  session.send({ type: "response.cancel" });
}

function press() {
  if (!running() || !$("push").checked || holding) return;
  hush();
  holding = true;
  session.send({ type: "input_audio_buffer.clear" });
  enter("hearing");
}

function release() {
  if (!holding) return;
  holding = false;
  session.send({ type: "input_audio_buffer.commit" });
  session.send({ type: "response.create" });
  enter("thinking");
}

$("orb").addEventListener("click", () => {
  if (!session) start();
  else if (!$("push").checked || !session.open) session.close();
});
$("orb").addEventListener("pointerdown", press);
addEventListener("pointerup", release);
addEventListener("pointercancel", release);
addEventListener("blur", release);
$("orb").addEventListener("contextmenu", (event) => event.preventDefault());

const typingIn = (target) => target.matches?.("input:not([type=checkbox]), select, textarea");
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !$("settings").open) hush();
  if (event.altKey && event.code === "KeyM") $("mute").click();
  if (event.code !== "Space" || typingIn(event.target) || !running() || !$("push").checked) return;
  event.preventDefault();
  if (!event.repeat) press();
});
addEventListener("keyup", (event) => {
  if (event.code !== "Space" || !holding) return;
  event.preventDefault();
  release();
});

$("mute").addEventListener("click", () => {
  const muted = $("mute").ariaPressed !== "true";
  $("mute").ariaPressed = String(muted);
  $("mute").ariaLabel = muted ? "Switch the microphone on" : "Mute the microphone";
});
$("hush").addEventListener("click", () => (document.body.dataset.state === "speaking" ? hush() : session?.close()));
$("problem").lastElementChild.addEventListener("click", () => complain(""));

$("typing").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text) return;
  $("text").value = "";
  if (!session) {
    await sound.openSpeaker();
    enter("connecting");
    connect();
  }
  hush();
  new Bubble("user", "You").show(text);
  const content = [{ type: "input_text", text }];
  session.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  session.send({ type: "response.create" });
});

$("settings-open").addEventListener("click", () => $("settings").showModal());
$("settings").addEventListener("close", () => {
  sessionStorage.setItem("key", $("key").value);
  localStorage.setItem("push", $("push").checked ? "1" : "");
});
$("push").addEventListener("change", () => {
  if (!running()) return;
  const vad = $("push").checked ? null : { type: "server_vad" };
  session.send({ type: "session.update", session: { type: "realtime", audio: { input: { turn_detection: vad } } } });
  enter(document.body.dataset.state);
});
$("microphone").addEventListener("change", () => {
  if (!sound.stream) return;
  sound.openMicrophone($("microphone").value).catch((error) => complain(WHY[error.name] ?? error.message));
});
$("key").value = sessionStorage.getItem("key") ?? "";
$("push").checked = Boolean(localStorage.getItem("push"));

// --- the echo: rings that leave the middle with the sound, yours and the reply's ---

const rings = [];
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const canvas = $("orb").querySelector("canvas");
const pen = canvas.getContext("2d");
const RING_MS = 1600;
let strongest = 0;
let drawn = 0;

function loudness(state) {
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

// Thirty pictures a second, and none while nothing sounds: the machine has better things to do.
function draw(now) {
  requestAnimationFrame(draw);
  if (now - drawn < 30) return;
  drawn = now;
  const state = document.body.dataset.state;
  const before = strongest;
  strongest = Math.max(loudness(state), strongest * 0.85);
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
}
requestAnimationFrame(draw);

window.echoic = { sound, get session() { return session; }, get reply() { return reply; } }; // for the console, and for tests
