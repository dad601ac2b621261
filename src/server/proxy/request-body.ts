import type { IncomingMessage } from 'node:http'
import { type LlmRequest, readLlmRequest } from '../../llm/llm-request.ts'
import { codingOf, decodeWhole } from './content-coding.ts'
import type { ProxiedRequest } from './proxied-request.ts'

/** A body that was read to see what it may cost. */
export interface ReadBody {
  /** The bytes that came, for the backend. */
  readonly bytes: Buffer
  readonly llm: LlmRequest
}

export type BodyProblem = 'body_too_large' | 'bad_request'

/** Reads the body for the estimate. Rejects when the client goes away before it is whole. */
export async function readBody(request: ProxiedRequest, maxBytes: number): Promise<ReadBody | BodyProblem> {
  const bytes = request.hasBody ? await collect(request.req, maxBytes) : EMPTY
  if (bytes === undefined) return 'body_too_large'
  const coding = codingOf(request.header('content-encoding'))
  // What cannot be read is counted as it is, over the whole body.
  if (coding === undefined) return { bytes, llm: readLlmRequest(bytes.toString('latin1')) }
  try {
    const decoded = await decodeWhole(bytes, coding, maxBytes)
    return { bytes, llm: readLlmRequest(decoded.toString('utf8')) }
  } catch (error) {
    return error instanceof RangeError ? 'body_too_large' : 'bad_request'
  }
}

const EMPTY = Buffer.alloc(0)

function collect(req: IncomingMessage, maxBytes: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      chunks.push(chunk)
      if (size <= maxBytes) return
      req.off('data', onData).off('end', onEnd)
      resolve(undefined)
    }
    const onEnd = (): void => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size))
    req.on('data', onData).once('end', onEnd).once('error', reject)
    req.once('close', () => reject(new Error('the client went away')))
  })
}
