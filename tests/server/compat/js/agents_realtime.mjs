// @openai/agents-realtime in Node: a RealtimeSession hears a question and is interrupted in its answer.
import { RealtimeAgent, RealtimeSession } from "@openai/agents-realtime";
import { Microphone, finish, interruption, question, report, url } from "./talking.mjs";

const agent = new RealtimeAgent({ name: "agent", instructions: "Answer in two sentences." });
const session = new RealtimeSession(agent, {
  transport: "websocket",
  config: { audio: { input: { transcription: { model: "whisper-1" } } } },
});

session.on("error", (error) => report.errors.push(JSON.stringify(error.error ?? error)));
session.on("audio_interrupted", () => {
  report.interruptions += 1;
});
session.on("transport_event", (event) => {
  if (event.type === "conversation.item.input_audio_transcription.completed") report.transcripts.push(event.transcript);
});
session.on("agent_end", (_context, _agent, text) => {
  report.replies.push(text);
  if (report.transcripts.length >= 2) finish();
});

await session.connect({ apiKey: "ek_unused", url: `${url}/realtime` });
const microphone = new Microphone((pcm) => session.sendAudio(new Uint8Array(pcm).buffer));
microphone.say(question);
session.on("audio", ({ data }) => {
  if (!report.audio_bytes) microphone.say(interruption);
  report.audio_bytes += data.byteLength;
});
