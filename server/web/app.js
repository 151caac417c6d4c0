// The page: a client of the server's own Realtime endpoint, with nothing between the two.
// Beyond the protocol it asks for Echoic's extras: the words as they are heard and spoken, each turn's latency,
// how much the echoic memory holds, and a session that outlives a lost connection.

import { Session } from "./connection.js";
import { $ } from "./dom.js";
import { Memory } from "./memory.js";
import { showRings } from "./rings.js";
import { Sound, WIRE_HZ, decode, encode } from "./sound.js";
import { Bubble, Reply, follow, waterfall } from "./transcript.js";

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
    ended?.end(response, sound.played_ms);
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

showRings(sound);
window.echoic = { sound, get session() { return session; }, get reply() { return reply; } }; // for the console, and for tests
