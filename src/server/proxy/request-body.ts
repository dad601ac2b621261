import type { IncomingMessage } from 'node:http'
import { type LlmRequest, readLlmRequest } from '../../llm/llm-request.ts'
import type { BodyClaim, BodyClaims } from './body-claims.ts'
import { type CollectOptions, collect, FIRST_STEP_BYTES } from './body-collector.ts'
import { codingOf, decodeWhole } from './content-coding.ts'
import type { ProxiedRequest } from './proxied-request.ts'

/** A body that was read to see what it may cost. */
export interface ReadBody {
  /** The bytes that came, for the backend. */
  readonly bytes: Buffer
  /** There is more to come than was read. */
  readonly isPartial: boolean
  /** What it says of its cost; or why that cannot be told. */
  readonly llm: LlmRequest | 'body_too_large' | 'bad_request' | 'upload_too_slow' | 'body_memory_exhausted'
  /** Its bytes are held no longer. Any number of times. */
  release(): void
}

/**
 * Reads the body for the estimate, as soon as there is memory for it. `onClaimed`: it is read from now on. Answers undefined when
 * the client went away before it was whole. Where nothing is enforced, no request waits for memory: its body passes unread.
 */
export async function readBody(
  request: ProxiedRequest,
  claims: BodyClaims,
  options: CollectOptions,
  onClaimed: () => void,
): Promise<ReadBody | undefined> {
  const { req, contentLength } = request
  const { maxBytes, isEnforced } = options
  if (!request.hasBody) {
    onClaimed()
    return { ...UNREAD, isPartial: false, llm: await readCost(EMPTY, request, maxBytes) }
  }
  const firstBytes = contentLength ?? Math.min(FIRST_STEP_BYTES, maxBytes)
  if (!isEnforced && firstBytes > maxBytes) {
    onClaimed()
    return { ...UNREAD, llm: 'body_too_large' }
  }
  const claim = claims.open(firstBytes) ?? (isEnforced ? await waitForClaim(req, claims, firstBytes) : 'body_memory_exhausted')
  if (claim === undefined) return undefined
  if (claim === 'body_memory_exhausted') {
    if (!isEnforced) onClaimed()
    return { ...UNREAD, llm: claim }
  }
  try {
    return await readClaimed(request, claim, options, onClaimed)
  } catch (error) {
    claim.release()
    throw error
  }
}

async function readClaimed(
  request: ProxiedRequest,
  claim: BodyClaim,
  options: CollectOptions,
  onClaimed: () => void,
): Promise<ReadBody | undefined> {
  onClaimed()
  const outcome = await collect(request.req, claim, options)
  if (outcome === undefined) return undefined
  if (typeof outcome === 'string') return { ...UNREAD, llm: outcome }
  const { bytes, isPartial } = outcome
  const llm = isPartial ? 'body_too_large' : await readCost(bytes, request, options.maxBytes)
  return { bytes, isPartial, llm, release: () => claim.release() }
}

/** Nothing of the body is read meanwhile. */
function waitForClaim(req: IncomingMessage, claims: BodyClaims, bytes: number): Promise<BodyClaim | 'body_memory_exhausted' | undefined> {
  return new Promise((resolve) => {
    const onClose = (): void => {
      callOff()
      resolve(undefined)
    }
    if (req.destroyed) return resolve(undefined)
    req.once('close', onClose)
    const callOff = claims.wait(bytes, (claim) => {
      req.off('close', onClose)
      resolve(claim ?? 'body_memory_exhausted')
    })
  })
}

async function readCost(bytes: Buffer, request: ProxiedRequest, maxBytes: number): Promise<LlmRequest | 'body_too_large' | 'bad_request'> {
  const coding = codingOf(request.header('content-encoding'))
  // What cannot be read is counted as it is, over the whole body.
  if (coding === undefined) return readLlmRequest(bytes.toString('latin1'))
  try {
    return readLlmRequest((await decodeWhole(bytes, coding, maxBytes)).toString('utf8'))
  } catch (error) {
    return error instanceof RangeError ? 'body_too_large' : 'bad_request'
  }
}

const EMPTY = Buffer.alloc(0)

const UNREAD = { bytes: EMPTY, isPartial: true, release: () => {} }
