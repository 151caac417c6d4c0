// openai: a question and an interruption of its answer, over a connection of either of the package's builds.
import { Microphone } from "./talking.mjs";

export function takeTurns(realtime, talk) {
  const { report } = talk;
  let microphone;

  realtime.on("error", (error) => report.errors.push(String(error)));
  realtime.on("session.created", () => {
    const audio = { input: { transcription: { model: "whisper-1" } } };
    realtime.send({ type: "session.update", session: { type: "realtime", audio, instructions: "Answer with a long story." } });
  });
  realtime.on("session.updated", () => {
    microphone = new Microphone((pcm) =>
      realtime.send({ type: "input_audio_buffer.append", audio: btoa(String.fromCharCode(...pcm)) }),
    );
    microphone.say(talk.question);
  });
  realtime.on("conversation.item.input_audio_transcription.completed", (event) => {
    report.transcripts.push(event.transcript);
  });
  realtime.on("response.output_audio.delta", (event) => {
    if (!report.audio_bytes) microphone.say(talk.interruption);
    report.audio_bytes += atob(event.delta).length;
  });
  realtime.on("response.done", ({ response }) => {
    report.replies.push(response.output[0]?.content[0]?.transcript ?? "");
    if (response.status === "cancelled") report.interruptions += 1;
    else if (report.transcripts.length >= 2) talk.finish();
  });
}
