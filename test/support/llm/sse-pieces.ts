import type { SseFraming, SsePiece } from '../../../src/llm/sse-framing.ts'

/** The pieces that a chunk completes. The chunk is overwritten behind it, as a shared read buffer is. */
export function pushed(framing: SseFraming, chunk: Buffer | string): SsePiece[] {
  const bytes = Buffer.from(chunk)
  framing.push(bytes)
  const pieces: SsePiece[] = []
  while (framing.next()) pieces.push(copyOf(framing))
  bytes.fill('!')
  return pieces
}

/** The pieces at the end of the stream. */
export function finished(framing: SseFraming): SsePiece[] {
  return framing.finish() ? [copyOf(framing)] : []
}

function copyOf({ bytes, start, end, kind, lines, lineCount, isFirst, isEnded }: SsePiece): SsePiece {
  const copy = Buffer.from(bytes.subarray(start, end))
  return { bytes: copy, start: 0, end: copy.length, kind, lines: lines.slice(0, lineCount), lineCount, isFirst, isEnded }
}
