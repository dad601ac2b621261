import type { IncomingMessage } from 'node:http'
import { type LlmRequest, readLlmRequest } from '../../llm/llm-request.ts'
import { codingOf, decodeWhole } from './content-coding.ts'
import type { ProxiedRequest } from './proxied-request.ts'

/** A body that was read to see what it may cost. */
export interface ReadBody {
  /** The bytes that came, for the backend. */
  readonly bytes: Buffer
  /** There is more to come than may be read. */
  readonly isPartial: boolean
  /** What it says of its cost; or why that cannot be told. */
  readonly llm: LlmRequest | 'body_too_large' | 'bad_request'
}

type Collected = Pick<ReadBody, 'bytes' | 'isPartial'>

/** Reads the body for the estimate. Rejects when the client goes away before it is whole. */
export async function readBody(request: ProxiedRequest, maxBytes: number): Promise<ReadBody> {
  const { bytes, isPartial } = request.hasBody ? await collect(request.req, maxBytes) : NO_BODY
  return { bytes, isPartial, llm: isPartial ? 'body_too_large' : await readCost(bytes, request, maxBytes) }
}

async function readCost(bytes: Buffer, request: ProxiedRequest, maxBytes: number): Promise<ReadBody['llm']> {
  const coding = codingOf(request.header('content-encoding'))
  // What cannot be read is counted as it is, over the whole body.
  if (coding === undefined) return readLlmRequest(bytes.toString('latin1'))
  try {
    return readLlmRequest((await decodeWhole(bytes, coding, maxBytes)).toString('utf8'))
  } catch (error) {
    return error instanceof RangeError ? 'body_too_large' : 'bad_request'
  }
}

const NO_BODY: Collected = { bytes: Buffer.alloc(0), isPartial: false }

function collect(req: IncomingMessage, maxBytes: number): Promise<Collected> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      chunks.push(chunk)
      if (size <= maxBytes) return
      req.off('data', onData).off('end', onEnd).pause()
      resolve({ bytes: Buffer.concat(chunks, size), isPartial: true })
    }
    const onEnd = (): void => resolve({ bytes: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size), isPartial: false })
    req.on('data', onData).once('end', onEnd).once('error', reject)
    req.once('close', () => reject(new Error('the client went away')))
  })
}
