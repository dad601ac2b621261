import { type LlmRequest, LlmRequestReader } from '../../../src/llm/llm-request.ts'
import { LlmResponseReader } from '../../../src/llm/llm-response.ts'
import type { Tally } from '../../../src/llm/usage.ts'

export function readLlmRequest(body: string | Buffer): LlmRequest {
  const request = judgeLlmRequest(body)
  if (typeof request === 'string') throw new Error(request)
  return request
}

export function judgeLlmRequest(body: string | Buffer): ReturnType<LlmRequestReader['end']> {
  const reader = new LlmRequestReader()
  const bytes = Buffer.from(body as string)
  reader.push(bytes, 0, bytes.length)
  return reader.end()
}

export function readAnswer(body: string | Buffer): Tally {
  return answerReader(body).end()
}

export function readPartialAnswer(body: string | Buffer): Tally {
  return answerReader(body).breakOff()
}

function answerReader(body: string | Buffer): LlmResponseReader {
  const reader = new LlmResponseReader()
  const bytes = Buffer.from(body as string)
  reader.push(bytes, 0, bytes.length)
  return reader
}
