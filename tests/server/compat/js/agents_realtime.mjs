// @openai/agents-realtime: a RealtimeSession hears a question and is interrupted in its answer.
import { RealtimeAgent, RealtimeSession } from "@openai/agents-realtime";
import { Microphone } from "./talking.mjs";

export default async function converse(talk) {
  const { report } = talk;
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
    if (report.transcripts.length >= 2) talk.finish();
  });

  await session.connect({ apiKey: "ek_unused", url: `${talk.url}/realtime` });
  const microphone = new Microphone((pcm) => session.sendAudio(pcm.buffer));
  microphone.say(talk.question);
  session.on("audio", ({ data }) => {
    if (!report.audio_bytes) microphone.say(talk.interruption);
    report.audio_bytes += data.byteLength;
  });
}
